#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace trireme {

struct TextPosition {
  std::uint32_t line = 1;
  std::uint32_t column = 1;
};

// Position at which TOML text nests deeper than any valid config. The parser is recursive, so a
// file of "a.a.a.a" or "[[[[" would overflow its stack.
std::optional<TextPosition> too_deep(std::string_view toml);

}  // namespace trireme
