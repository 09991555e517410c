#include "model/base/half.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace trireme::test {
namespace {

TEST(Half, every_value_is_read_as_the_standard_says_and_written_back) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const int mantissa = static_cast<int>(bits & 1023);
    const double sign = bits >> 15 ? -1 : 1;
    const float value = half_value(half);
    if (exponent == 31 && mantissa > 0) {
      EXPECT_TRUE(std::isnan(value) && std::isnan(half_value(half_bits(value))));
      continue;
    }
    const double expected = exponent == 31  ? HUGE_VAL
                            : exponent == 0 ? std::ldexp(mantissa, -24)
                                            : std::ldexp(1024 + mantissa, exponent - 25);
    EXPECT_EQ(value, sign * expected) << bits;
    EXPECT_EQ(half_bits(value), half);
  }
}

TEST(Half, rounds_to_the_nearest_and_ties_to_even) {
  // Between every two neighbours: the middle, and the floats next to it.
  for (std::uint16_t low = 0; low < 0x7c00; ++low) {
    const auto high = static_cast<std::uint16_t>(low + 1);
    const double above = high == 0x7c00 ? 65536 : half_value(high);
    const auto middle = static_cast<float>((half_value(low) + above) / 2);
    EXPECT_EQ(half_bits(middle), low % 2 == 0 ? low : high) << low;
    EXPECT_EQ(half_bits(std::nextafter(middle, 0.0f)), low);
    EXPECT_EQ(half_bits(std::nextafter(middle, 1e9f)), high);
  }
}

// By the definition, in float64: steps of the exponent's size, none smaller than 2^-24.
double nearest_half(float value) {
  const auto wide = static_cast<double>(value);
  const int exponent = std::max(value == 0 ? -14 : std::ilogb(wide), -14) - 10;
  const double result = std::ldexp(std::nearbyint(std::ldexp(wide, -exponent)), exponent);
  return std::fabs(result) > 65504 ? std::copysign(HUGE_VAL, wide) : result;
}

TEST(Half, random_floats_are_rounded_as_the_definition_says) {
  std::mt19937 random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    // Any float32 half of the time, else one that float16 has or nearly has.
    auto word = static_cast<std::uint32_t>(random());
    if (i % 2 == 0) word = (word & 0x8fffffffu) | 0x30000000u;
    const auto value = std::bit_cast<float>(word);
    const float got = half_value(half_bits(value));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(got));
      continue;
    }
    ASSERT_EQ(got, nearest_half(value)) << value;
    ASSERT_EQ(std::signbit(got), std::signbit(value)) << value;
  }
}

}  // namespace
}  // namespace trireme::test
