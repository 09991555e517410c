#include "model/device/cpu/processor.h"

#include <fstream>

namespace trireme::cpu {
namespace {

Processor read_processor() {
  std::ifstream info("/proc/cpuinfo");
  Processor found{.name = "unknown processor", .stepping = ""};
  for (std::string line; std::getline(info, line) && !line.empty();) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find('\t')), value = line.substr(colon + 2);
    if (key == "model name") found.name = value;
    if (key == "cpu family" || key == "model" || key == "stepping") {
      found.stepping += (found.stepping.empty() ? "" : ".") + value;
    }
  }
  return found;
}

}  // namespace

const Processor& processor() {
  static const Processor found = read_processor();
  return found;
}

}  // namespace trireme::cpu
