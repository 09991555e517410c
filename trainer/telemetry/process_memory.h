#pragma once
#include <cstdint>

namespace trireme {

// Physical memory of this process, from /proc/self/status.
struct ProcessMemory {
  std::uint64_t resident_bytes = 0;  // VmRSS
  std::uint64_t peak_bytes = 0;      // VmHWM
};
ProcessMemory process_memory();

}  // namespace trireme
