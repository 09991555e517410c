#pragma once
#include <string>

namespace trireme {

// What this machine calls itself.
std::string own_host_name();

}  // namespace trireme
