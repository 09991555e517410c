#pragma once
#include <cstddef>
#include <string_view>

namespace trireme::data {

// Size in bytes of the first character of `text` if it is well-formed UTF-8 (no overlong forms,
// surrogates or code points above U+10FFFF), otherwise 0.
inline std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  if (text.empty()) return 0;
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  if (lead < 0xE0) return follows(1) ? 2 : 0;
  if (lead < 0xF0) {
    if (lead == 0xE0 && byte(1) < 0xA0) return 0;   // overlong
    if (lead == 0xED && byte(1) >= 0xA0) return 0;  // surrogates
    return follows(1) && follows(2) ? 3 : 0;
  }
  if (lead == 0xF0 && byte(1) < 0x90) return 0;   // overlong
  if (lead == 0xF4 && byte(1) >= 0x90) return 0;  // above U+10FFFF
  return lead < 0xF5 && follows(1) && follows(2) && follows(3) ? 4 : 0;
}

}  // namespace trireme::data
