#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace trireme {

// FP8 formats (Micikevicius et al. 2022, "FP8 Formats for Deep Learning"). E4M3 has four exponent
// bits, three mantissa bits, no infinity and a maximum of 448. E5M2 has a maximum of 57344.
enum class Float8Format : std::uint8_t { kE4M3, kE5M2 };

constexpr const char* name_of(Float8Format format) {
  return format == Float8Format::kE4M3 ? "float8_e4m3" : "float8_e5m2";
}

// In both formats the largest number is 1.75 times two to the power of `top`.
struct Float8Layout {
  int mantissa_bits, bias, top;
  std::uint32_t largest;  // code of the largest number
};
constexpr Float8Layout float8_layout(Float8Format format) {
  return format == Float8Format::kE4M3 ? Float8Layout{3, 7, 8, 0x7e}
                                       : Float8Layout{2, 15, 15, 0x7b};
}

// The code of the nearest number, ties to even, saturating. NaN stays NaN.
template <Float8Format kFormat>
std::uint8_t to_float8(float value) {
  constexpr Float8Layout kLayout = float8_layout(kFormat);
  constexpr int kDropped = 23 - kLayout.mantissa_bits;
  constexpr std::uint32_t kLeastNormal = static_cast<std::uint32_t>(128 - kLayout.bias) << 23;
  // The last bit of a sum with this number is the spacing of denormals.
  constexpr std::uint32_t kSteps =
      static_cast<std::uint32_t>(127 + 24 - kLayout.bias - kLayout.mantissa_bits) << 23;
  std::uint32_t word = 0;
  std::memcpy(&word, &value, 4);
  const std::uint32_t sign = word >> 24 & 0x80, magnitude = word & 0x7fffffff;
  const std::uint32_t nearest =
      (magnitude + (1u << (kDropped - 1)) - 1 + (magnitude >> kDropped & 1)) >> kDropped;
  std::uint32_t code =
      nearest - (static_cast<std::uint32_t>(127 - kLayout.bias) << kLayout.mantissa_bits);
  if (magnitude < kLeastNormal) {
    float steps = 0;
    std::memcpy(&steps, &kSteps, 4);
    const float sum = std::fabs(value) + steps;
    std::memcpy(&code, &sum, 4);
    code -= kSteps;
  }
  code = std::min(code, kLayout.largest);
  if (magnitude > 0x7f800000u) code = 0x7f;
  return static_cast<std::uint8_t>(sign | code);
}

inline float from_float8(std::uint8_t code, Float8Format format) {
  const Float8Layout layout = float8_layout(format);
  const int mantissa = code & ((1 << layout.mantissa_bits) - 1);
  const int exponent = (code & 0x7f) >> layout.mantissa_bits;
  const float sign = (code & 0x80) != 0 ? -1.0f : 1.0f;
  if ((code & 0x7fu) > layout.largest) {
    const bool is_infinite = format == Float8Format::kE5M2 && mantissa == 0;
    return sign * (is_infinite ? std::numeric_limits<float>::infinity()
                               : std::numeric_limits<float>::quiet_NaN());
  }
  const int hidden = exponent == 0 ? 0 : 1 << layout.mantissa_bits;
  return sign * std::ldexp(static_cast<float>(hidden + mantissa),
                           std::max(exponent, 1) - layout.bias - layout.mantissa_bits);
}

// The scale for numbers of magnitude up to `amax`: the largest power of two that keeps them in the
// format's range, so that scaling is exact, and its inverse. At most 2^100, so that the inverse
// times any number of the format is a normal float. NaN if amax is not finite, so that an overflow
// is not hidden.
struct Float8Scale {
  float scale, inverse;
};
inline Float8Scale float8_scale(Float8Format format, float amax) {
  if (!std::isfinite(amax)) {
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    return {kNan, kNan};
  }
  constexpr int kMost = 100;
  std::uint32_t word = 0;
  std::memcpy(&word, &amax, 4);
  const int exponent = static_cast<int>(word >> 23) - 127;
  const int beyond = (word & 0x7fffff) > 0x600000 ? 1 : 0;  // mantissa above that of 1.75
  const int shift = std::min(kMost, float8_layout(format).top - exponent - beyond);
  return {std::ldexp(1.0f, shift), std::ldexp(1.0f, -shift)};
}

}  // namespace trireme
