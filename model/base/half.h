#pragma once
#include <bit>
#include <cstdint>

namespace trireme {

// Converts between IEEE 754 binary16 and float32, rounding to nearest even, independent of the
// processor's denormal mode.
inline std::uint16_t half_bits(float value) {
  const auto word = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = word >> 16 & 0x8000u, magnitude = word & 0x7fffffffu;
  std::uint32_t bits = 0;
  if (magnitude > 0x7f800000u) {
    bits = 0x7e00u;  // NaN stays NaN
  } else if (magnitude >= 0x477ff000u) {
    bits = 0x7c00u;  // from 65520 on the nearest value is infinity
  } else if (magnitude < 0x38800000u) {
    // Below 2^-14 the spacing is 2^-24, that of float32 from 0.5 on.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    bits = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
  } else {
    bits = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - 0x38000000u) >> 13;
  }
  return static_cast<std::uint16_t>(sign | bits);
}

inline float half_value(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  std::uint32_t word = (magnitude << 13) + 0x38000000u;
  if (magnitude >= 0x7c00u) word = (magnitude << 13) | 0x7f800000u;
  if (magnitude < 0x400u) {
    word = std::bit_cast<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  }
  return std::bit_cast<float>(sign | word);
}

}  // namespace trireme
