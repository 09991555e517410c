#pragma once
#include <string>

namespace trireme::cpu {

struct Processor {
  std::string name;      // "AMD EPYC"; "unknown processor" where the system does not tell
  std::string stepping;  // family, model and stepping: "25.17.1"; may be empty
};

// The machine's first processor, as /proc/cpuinfo has it.
const Processor& processor();

}  // namespace trireme::cpu
