#pragma once
#include <cstdint>

namespace trireme {

// This process's physical memory, as the kernel counts it.
struct ProcessMemory {
  std::uint64_t resident_bytes = 0;  // now
  std::uint64_t peak_bytes = 0;      // the most ever
};
ProcessMemory process_memory();

}  // namespace trireme
