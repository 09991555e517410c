#pragma once
#include <string>

namespace trireme {

// The host name of this machine.
std::string own_host_name();

}  // namespace trireme
