#pragma once
#include <string>

namespace trireme::cpu {

struct Processor {
  std::string name;      // "AMD EPYC"; "unknown processor" if not available
  std::string stepping;  // family, model and stepping: "25.17.1"; may be empty
};

// The machine's first processor, from /proc/cpuinfo.
const Processor& processor();

}  // namespace trireme::cpu
