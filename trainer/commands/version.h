#pragma once
#include <string>

namespace trireme {

// "0.1.0"
std::string version();

// Version, build, libraries and devices of this machine, in several lines.
std::string version_text();

}  // namespace trireme
