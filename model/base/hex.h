#pragma once
#include <bit>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace trireme {

// All digits of a number, in lowercase; of a double, the digits of its bits.
template <std::unsigned_integral T>
std::string hex(T value) {
  std::string text(2 * sizeof(T), '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, value >>= 4) {
    *digit = "0123456789abcdef"[value & 15];
  }
  return text;
}
inline std::string hex(double value) {
  return hex(std::bit_cast<std::uint64_t>(value));
}

// Nothing unless `text` is what hex() gives for a T.
template <class T>
std::optional<T> from_hex(std::string_view text) {
  if (text.size() != 2 * sizeof(T)) return std::nullopt;
  std::uint64_t bits = 0;
  for (const char c : text) {
    const bool is_letter = c >= 'a' && c <= 'f';
    if (!is_letter && (c < '0' || c > '9')) return std::nullopt;
    bits = bits << 4 | static_cast<std::uint64_t>(is_letter ? c - 'a' + 10 : c - '0');
  }
  if constexpr (std::same_as<T, double>) {
    return std::bit_cast<double>(bits);
  } else {
    return static_cast<T>(bits);
  }
}

}  // namespace trireme
