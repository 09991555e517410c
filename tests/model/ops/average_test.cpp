#include "model/ops/average.h"

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kAverageCounts[] = {0, 1, 3, 17, 64, 20001};

template <class Body>
void on_every_average(const Body& body) {
  on_every_platform([&](Stream& stream) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      for (const std::int64_t count : kAverageCounts) {
        SCOPED_TRACE(say(name_of(dtype), " ", count));
        body(stream, dtype, count);
      }
    }
  });
}

TEST(UpdateAverage, is_the_exponential_average_and_stops_at_nan) {
  on_every_average([](Stream& stream, DType dtype, std::int64_t count) {
    const Values before = random_values(count, 1, dtype), w = random_values(count, 2, dtype);
    const Held average(stream, {count}, dtype, before), weight(stream, {count}, dtype, w);
    const Held nan(stream, {1}, dtype, {kNan}), scale(stream, {1}, dtype, {0.25});
    update_average(stream, average, weight, nan, 0.9);
    EXPECT_EQ(average.values(), before);
    update_average(stream, average, weight, scale, 0.9);
    Values expected(before.size());
    for (std::size_t i = 0; i < before.size(); ++i) expected[i] = 0.9 * before[i] + 0.1 * w[i];
    expect_values(average, expected, 4, 1);
    EXPECT_EQ(weight.values(), w);
  });
}

// The product of two floats and their sum are exact enough in float64 to be rounded once.
TEST(UpdateAverage, rounds_each_operation_on_every_device) {
  on_every_platform([](Stream& stream) {
    const std::int64_t count = 20001;
    const DType dtype = DType::kF32;
    for (const double decay : {0.0, 0.5, 0.9, 0.999, 0.9999}) {
      const Values before = random_values(count, 3, dtype), w = random_values(count, 4, dtype);
      const Held average(stream, {count}, dtype, before), weight(stream, {count}, dtype, w);
      const Held scale(stream, {1}, dtype, {1});
      update_average(stream, average, weight, scale, decay);
      Values expected(before.size());
      const double rest = rounded(1 - decay, dtype);
      for (std::size_t i = 0; i < before.size(); ++i) {
        const double towards = rounded(rest * rounded(w[i] - before[i], dtype), dtype);
        expected[i] = rounded(before[i] + towards, dtype);
      }
      EXPECT_EQ(average.values(), expected) << decay;
    }
  });
}

// In the form decay * average + (1 - decay) * weight it would drift by the error of the factors.
TEST(UpdateAverage, equal_weights_keep_it_exactly) {
  on_every_average([](Stream& stream, DType dtype, std::int64_t count) {
    const Values w = random_values(count, 5, dtype);
    const Held average(stream, {count}, dtype, w), weight(stream, {count}, dtype, w);
    const Held scale(stream, {1}, dtype, {1});
    for (int step = 0; step < 10; ++step) {
      update_average(stream, average, weight, scale, 0.999);
    }
    EXPECT_EQ(average.values(), w);
  });
}

TEST(UpdateAverage, rejects_what_does_not_fit) {
  Stream stream;
  const Held average(stream, {4}, DType::kF32), shorter(stream, {3}, DType::kF32);
  const Held wide(stream, {4}, DType::kF64), half(stream, {4}, DType::kBf16);
  const Held scale(stream, {1}, DType::kF32, {1});
  EXPECT_THROW(update_average(stream, average, shorter, scale, 0.9), Error);
  EXPECT_THROW(update_average(stream, average, wide, scale, 0.9), Error);
  EXPECT_THROW(update_average(stream, half, half, scale, 0.9), Error);
  EXPECT_THROW(update_average(stream, average, average, average, 0.9), Error);
  EXPECT_THROW(update_average(stream, average, average, scale, 1), Error);
}

}  // namespace
}  // namespace trireme::ops
