#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace trireme::preflight {

// Health of a GPU according to NVML, the driver's management library. Unsupported values are left
// out.
struct GpuHealth {
  std::string unknown_because;                        // why NVML or the GPU cannot be queried
  std::optional<std::uint64_t> uncorrected_errors;    // uncorrected ECC errors since the last reset
  std::optional<bool> row_remapping_failed;           // no spare memory rows: replace the GPU
  std::optional<std::uint64_t> throttled;             // clock throttle reasons: bits below
  std::optional<unsigned> clock_mhz, most_clock_mhz;  // SM clock: now, maximum
  std::optional<unsigned> temperature;                // degrees Celsius
  int links_up = 0, links_down = 0;                   // NVLink

  // Throttle reasons that indicate a hardware fault, not a setting or an idle GPU.
  static constexpr std::uint64_t kHardware = 0x08, kSoftwareHot = 0x20, kHardwareHot = 0x40,
                                 kPowerBrake = 0x80;
};

// Queries the GPU with this PCI bus id. Loads libnvidia-ml.so.1 at run time, so that no build
// depends on it. Never throws.
GpuHealth gpu_health(const std::string& bus_id);

// Faults that would slow down or corrupt a job; empty: none.
std::string fault_of(const GpuHealth& health);

}  // namespace trireme::preflight
