#include "trainer/telemetry/process_memory.h"

#include <sys/resource.h>

#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace trireme {

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    std::uint64_t kib = 0;
    if (!(words >> name >> kib)) continue;
    if (name == "VmRSS:") memory.resident_bytes = kib << 10;
    if (name == "VmHWM:") memory.peak_bytes = kib << 10;
  }
  if (memory.peak_bytes == 0) {  // some sandboxes omit VmHWM
    struct rusage usage {};
    if (::getrusage(RUSAGE_SELF, &usage) == 0) {
      memory.peak_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
    }
  }
  return memory;
}

}  // namespace trireme
