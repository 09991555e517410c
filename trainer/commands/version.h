#pragma once
#include <string>

namespace trireme {

// "0.1.0"
std::string version();

// Several lines: the program, how it was built, the libraries it was built with, and
// the devices of this machine.
std::string version_text();

}  // namespace trireme
