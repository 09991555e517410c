#pragma once
#include <string_view>

namespace trireme {

// Writes text to standard output. Throws EnvironmentError on failure.
void print_out(std::string_view text);

}  // namespace trireme
