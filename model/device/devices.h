#pragma once
#include <cstddef>
#include <string>

#include "model/device/device.h"

namespace trireme {

// The CUDA devices visible to this process (see CUDA_VISIBLE_DEVICES).
struct CudaDevices {
  int count = 0;
  std::string reason;  // why there is no device, for display; empty if there is one
  std::string fix;     // suggested fix: "install one"
};
const CudaDevices& cuda_devices();

struct DeviceProperties {
  std::string name;          // "NVIDIA H100 80GB HBM3"
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t free_bytes = 0;  // now
  std::string bus_id;          // PCI bus id "00000000:1B:00.0"; unique per host
};
// Throws EnvironmentError if the device does not exist.
DeviceProperties properties_of(Device device);

// CUDA versions at compile time and run time, 13000 for 13.0; `driver` is the newest CUDA that the
// driver supports. All 0 in a build without CUDA; `driver` is 0 without a driver.
struct CudaVersions {
  int compiled = 0;
  int running = 0;
  int driver = 0;
};
CudaVersions cuda_versions();

// Throws EnvironmentError, with the reason, if this process cannot use `device`.
void require_present(Device device);

}  // namespace trireme
