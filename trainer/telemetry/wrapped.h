#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Lines of at most `width` columns, broken at spaces; a longer word stays whole, and so does a text
// that begins with a path, which may have spaces of its own.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

}  // namespace trireme
