#include "model/device/devices.h"

#include "model/base/error.h"
#include "model/device/cuda/backend.h"

namespace trireme {

const CudaDevices& cuda_devices() {
  static const CudaDevices kFound = cuda::find_devices();
  return kFound;
}

DeviceProperties properties_of(Device device) {
  require(device.is_cuda(), "only CUDA devices have properties");
  require_present(device);
  return cuda::properties_of(device.index);
}

CudaVersions cuda_versions() {
  return cuda::versions();
}

void require_present(Device device) {
  if (!device.is_cuda()) return;
  const CudaDevices& found = cuda_devices();
  if (found.count == 0) throw EnvironmentError(say(device, ": ", found.reason));
  if (device.index >= 0 && device.index < found.count) return;
  throw EnvironmentError(
      say(device, ": there are ", found.count, " CUDA devices, cuda:0 to cuda:", found.count - 1));
}

}  // namespace trireme
