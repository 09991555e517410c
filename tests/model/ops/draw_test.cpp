#include "model/ops/draw.h"

#include <cmath>
#include <numbers>

#include "model/base/philox.h"
#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

Values drawn(Stream& stream, std::int64_t count, DType dtype, const NormalDraw& how) {
  const Held out(stream, {count}, dtype);
  draw_normal(stream, out, how);
  return out.values();
}

// The number at an index of the whole, by the library's functions.
double normal_at(const NormalDraw& how, std::int64_t index) {
  const auto word = philox(how.key, static_cast<std::uint64_t>(index / 4));
  const auto pair = static_cast<std::size_t>(index % 4 / 2 * 2);
  const double radius = std::sqrt(-2 * std::log((word[pair] + 0.5) / 4294967296.0));
  const double angle = 2 * std::numbers::pi * word[pair + 1] / 4294967296.0;
  return how.scale * radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

TEST(DrawNormal, is_the_transform_of_box_and_muller_of_the_words_of_philox) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const NormalDraw how{random_key(7, "a weight"), 0.02, {13, 600, 2000, 70}};
    const Values got = drawn(stream, 5000, dtype, how);
    for (std::int64_t i = 0; i < 5000; ++i) {
      const std::int64_t at = 13 + i;
      const double expected = normal_at(how, at / 600 * 2000 + 70 + at % 600);
      const double allowed = dtype == DType::kBf16 ? 0.004 : dtype == DType::kF16 ? 5e-4 : 1e-7;
      ASSERT_NEAR(got[i], expected, allowed * std::fabs(expected) + 1e-7) << i;
    }
  });
}

TEST(DrawNormal, gives_the_bits_of_plain_arithmetic_everywhere) {
  // Computed once without vectors or contraction.
  const std::uint32_t bits[] = {0x3eb0ff73, 0x3ded44e3, 0x4014cd28, 0xc012ff4a,
                                0xbe6bac4e, 0x3e924983, 0x3f0aec1f, 0xbf82c61e};
  on_every_platform([&](Stream& stream) {
    const Values got = drawn(stream, 8, DType::kF32, {random_key(1, "w"), 1, {0, 8, 8, 0}});
    for (std::size_t i = 0; i < 8; ++i) {
      const auto value = static_cast<float>(got[i]);
      std::uint32_t word = 0;
      std::memcpy(&word, &value, 4);
      EXPECT_EQ(word, bits[i]) << i;
    }
  });
}

TEST(DrawNormal, a_part_has_the_numbers_of_the_whole) {
  on_every_platform([](Stream& stream) {
    const std::uint64_t key = random_key(3, "w");
    const Values whole = drawn(stream, 4000, DType::kF32, {key, 1, {0, 4000, 4000, 0}});
    for (const auto& [first, count] : {std::pair{0, 1}, std::pair{3, 600}, std::pair{1021, 2979}}) {
      const Values part = drawn(stream, count, DType::kF32, {key, 1, {first, 4000, 4000, 0}});
      EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first));
    }
  });
}

}  // namespace
}  // namespace trireme::ops
