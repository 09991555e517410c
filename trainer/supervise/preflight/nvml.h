#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace trireme::preflight {

// What the driver's management library tells of a GPU; what it does not know is left out.
struct GpuHealth {
  std::string unknown_because;                        // the library or the GPU is not to be had
  std::optional<std::uint64_t> uncorrected_errors;    // of its memory (ECC), since the last reset
  std::optional<bool> row_remapping_failed;           // of its memory: it has to be replaced
  std::optional<std::uint64_t> throttled;             // why its clocks are held down: bits below
  std::optional<unsigned> clock_mhz, most_clock_mhz;  // of its multiprocessors
  std::optional<unsigned> temperature;                // degrees Celsius
  int links_up = 0, links_down = 0;                   // NVLink

  // Reasons that name a fault of the machine, not a setting or an idle GPU.
  static constexpr std::uint64_t kHardware = 0x08, kSoftwareHot = 0x20, kHardwareHot = 0x40,
                                 kPowerBrake = 0x80;
};

// Of the GPU on this PCI bus id. The library is opened now, libnvidia-ml.so.1: no build needs
// it. Never throws.
GpuHealth gpu_health(const std::string& bus_id);

// What is so wrong with it that a job would suffer; empty: nothing.
std::string fault_of(const GpuHealth& health);

}  // namespace trireme::preflight
