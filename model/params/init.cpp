#include "model/params/init.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "model/base/philox.h"

namespace trireme {
namespace {

constexpr double kLn2 = 0.69314718055994530942;
constexpr double kHalfPi = 1.57079632679489661923;

// Natural logarithm of a positive normal number: m 2^e with m in [sqrt(1/2), sqrt(2)), log m = 2
// atanh((m - 1) / (m + 1)) by its series.
double exact_log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
  if (m > 1.41421356237309504880) {
    m *= 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double s2 = s * s;
  double series = 0;
  for (int k = 23; k >= 1; k -= 2) series = series * s2 + 1.0 / k;
  return exponent * kLn2 + 2 * s * series;
}

// Cosine and sine of `turns` full turns, turns in [0, 1).
std::array<double, 2> exact_cos_sin(double turns) {
  const int quadrant =
      static_cast<int>(turns * 4 + 0.5);  // nearest, so the remainder is within 1/8 turn
  const double x = (turns * 4 - quadrant) * kHalfPi;
  const double x2 = x * x;
  double c = 0;
  double s = 0;
  for (int k = 20; k >= 2; k -= 2) c = (c + 1) * -x2 / (k * (k - 1));
  for (int k = 21; k >= 3; k -= 2) s = (s + 1) * -x2 / (k * (k - 1));
  c += 1;
  s = (s + 1) * x;
  switch (quadrant & 3) {
    case 0:
      return {c, s};
    case 1:
      return {-s, c};
    case 2:
      return {-c, -s};
    default:
      return {s, -c};
  }
}

}  // namespace

ElementInit::ElementInit(Init init, double scale, std::uint64_t seed, std::string_view name)
    : init_(init), scale_(scale), key_(random_key(seed, std::string("init/").append(name))) {}

void ElementInit::fill(std::uint64_t first, std::span<float> out) const {
  if (init_ != Init::kNormal) {
    std::fill(out.begin(), out.end(), init_ == Init::kOnes ? 1.0f : 0.0f);
    return;
  }
  constexpr double kUnit = 1.0 / 4294967296.0;
  const std::uint64_t end = first + out.size();
  for (std::uint64_t quad = first / 4; quad * 4 < end; ++quad) {
    // Four words give four normal numbers: two pairs of (radius, angle).
    const auto words = philox(key_, quad);
    std::array<double, 4> normals{};
    for (std::size_t pair = 0; pair < 4; pair += 2) {
      const double radius = std::sqrt(-2 * exact_log((words[pair] + 0.5) * kUnit));
      const auto direction = exact_cos_sin(words[pair + 1] * kUnit);
      normals[pair] = radius * direction[0];
      normals[pair + 1] = radius * direction[1];
    }
    for (std::uint64_t i = 0; i < 4; ++i) {
      const std::uint64_t index = quad * 4 + i;
      if (index >= first && index < end) {
        out[index - first] = static_cast<float>(scale_ * normals[i]);
      }
    }
  }
}

}  // namespace trireme
