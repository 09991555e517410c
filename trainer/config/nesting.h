#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace trireme {

struct TextPosition {
  std::uint32_t line = 1;
  std::uint32_t column = 1;
};

// The first place where TOML text nests deeper than any config needs: the parser works
// by recursion, so a file of nothing but "a.a.a.a" or "[[[[" would overflow its stack.
std::optional<TextPosition> too_deep(std::string_view toml);

}  // namespace trireme
