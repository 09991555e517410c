#pragma once
#include <cstddef>
#include <string>

#include "model/device/device.h"

namespace trireme {

// The CUDA devices this process may use; CUDA_VISIBLE_DEVICES narrows them.
struct CudaDevices {
  int count = 0;
  std::string reason;  // why there is none, for people; empty when there is one
  std::string fix;     // what would help: "install one"
};
const CudaDevices& cuda_devices();

struct DeviceProperties {
  std::string name;          // "NVIDIA H100 80GB HBM3"
  int major = 0, minor = 0;  // the compute capability
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t free_bytes = 0;  // now
  std::string bus_id;          // "00000000:1B:00.0"; one GPU of a host has one
};
// Throws EnvironmentError where the device is not there.
DeviceProperties properties_of(Device device);

// Of CUDA as this program was compiled and as it runs, 13000 for 13.0; the driver's is the
// newest CUDA it can run. All 0 in a build without CUDA, `driver` 0 without a driver.
struct CudaVersions {
  int compiled = 0;
  int running = 0;
  int driver = 0;
};
CudaVersions cuda_versions();

// Throws EnvironmentError, with the reason, where `device` is one this process cannot use.
void require_present(Device device);

}  // namespace trireme
