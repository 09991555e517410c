#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Breaks a text at spaces into lines of at most `width` columns. Longer words stay whole, and so
// does a text that starts with a path, which may contain spaces.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

}  // namespace trireme
