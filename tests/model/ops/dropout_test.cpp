#include "model/ops/dropout.h"

#include "model/base/philox.h"
#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

// By the definition in ops/dropout.h.
bool is_kept(const Dropout& how, std::int64_t column, std::int32_t word) {
  const auto words =
      philox(how.key, static_cast<std::uint64_t>(column) / 8, static_cast<std::uint32_t>(word));
  const auto place = static_cast<std::size_t>(column % 8);
  return (words[place / 2] >> (place % 2 * 16) & 0xffff) >= how.dropped();
}

struct Words {
  explicit Words(std::int64_t tokens) : values(tokens) {
    for (std::int64_t i = 0; i < tokens; ++i) {
      values[i] = static_cast<std::int32_t>(philox(3, static_cast<std::uint64_t>(i))[0]);
    }
  }
  Held on(Stream& stream) const {
    return {stream, {std::ssize(values)}, DType::kI32, Values(values.begin(), values.end())};
  }
  std::vector<std::int32_t> values;
};

TEST(Dropout, keeps_the_elements_of_its_definition_and_may_be_in_place) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const std::int64_t width : {1, 7, 64, 520, 1030}) {
      SCOPED_TRACE(width);
      const std::int64_t tokens = 19;
      const Words words(tokens);
      const Held held = words.on(stream);
      const Dropout how{.rate = 0.3, .key = random_key(1, "x"), .words = held};
      Values x = random_values(tokens * width, 1, dtype), expected = x;
      // What is dropped is zero, whatever it was.
      const std::int64_t bad = is_kept(how, 0, words.values[0]) ? -1 : 0;
      if (bad == 0) x[0] = kNan;
      for (std::int64_t i = 0; i < tokens * width; ++i) {
        const bool kept = is_kept(how, i % width, words.values[i / width]);
        expected[i] = kept ? expected[i] * how.scale() : 0;
      }
      const Held input(stream, {tokens, width}, dtype, x), y(stream, {tokens, width}, dtype);
      dropout(stream, y, input, how);
      expect_values(y, expected, 2);
      dropout(stream, input, input, how);
      EXPECT_EQ(input.bits(), y.bits());
    }
  });
}

TEST(Dropout, drops_its_share_and_keeps_the_mean) {
  on_every_platform([](Stream& stream) {
    const std::int64_t tokens = 300, width = 1000;
    const Held words = Words(tokens).on(stream);
    const Held x(stream, {tokens, width}, DType::kF32, Values(tokens * width, 1.0));
    for (const double rate : {0.1, 0.5, 0.9}) {
      const Held y(stream, {tokens, width}, DType::kF32);
      dropout(stream, y, x, {.rate = rate, .key = 5, .words = words});
      double zeros = 0, sum = 0;
      for (const double value : y.values()) {
        zeros += value == 0;
        sum += value;
      }
      const double count = static_cast<double>(tokens * width);
      // Five standard deviations.
      EXPECT_NEAR(zeros / count, rate, 5 * std::sqrt(rate * (1 - rate) / count));
      EXPECT_NEAR(sum / count, 1, 5 * std::sqrt(rate / (1 - rate) / count));
    }
  });
}

TEST(Dropout, of_a_rate_beyond_its_range_or_without_words_is_an_error) {
  on_every_platform([](Stream& stream) {
    const Held x(stream, {4, 8}, DType::kF32), words(stream, {4}, DType::kI32);
    EXPECT_THROW(dropout(stream, x, x, {.rate = 1, .key = 1, .words = words}), Error);
    EXPECT_THROW(dropout(stream, x, x, {.rate = 0.1, .key = 1}), Error);
  });
}

}  // namespace
}  // namespace trireme::ops
