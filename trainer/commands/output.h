#pragma once
#include <string_view>

namespace trireme {

// Writes all of it to standard output, or throws EnvironmentError.
void print_out(std::string_view text);

}  // namespace trireme
