#include "model/ops/elementwise.h"

#include "model/ops/gemm.h"
#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

const std::int64_t kElementwiseCounts[] = {0, 1, 3, 17, 64, 100, 70001};

TEST(Elementwise, add_rounds_once_and_may_be_in_place) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const std::int64_t count : kElementwiseCounts) {
      SCOPED_TRACE(count);
      const Values a = random_values(count, 1, dtype), b = random_values(count, 2, dtype);
      Values expected;
      for (std::size_t i = 0; i < a.size(); ++i) expected.push_back(rounded(a[i] + b[i], dtype));
      const Held left(stream, {count}, dtype, a), right(stream, {count}, dtype, b);
      const Held y(stream, {count}, dtype);
      add(stream, y, left, right);
      EXPECT_EQ(y.values(), expected);
      add(stream, left, left, right);
      EXPECT_EQ(left.values(), expected);
    }
  });
}

TEST(Elementwise, scale_multiplies_by_the_factor_in_the_accumulator_and_may_be_in_place) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const std::int64_t count : kElementwiseCounts) {
      SCOPED_TRACE(count);
      const double factor = 0.0883883476483184;  // its bfloat16 is 0.2 % off
      const Values x = random_values(count, 1, dtype);
      Values expected;
      for (const double value : x) expected.push_back(factor * value);
      const Held input(stream, {count}, dtype, x), y(stream, {count}, dtype);
      scale(stream, y, input, factor);
      // The factor is rounded, then the product.
      expect_values(y, expected, 2);
      scale(stream, input, input, factor);
      EXPECT_EQ(input.bits(), y.bits());
    }
  });
}

TEST(Elementwise, copy_and_zero_reach_every_byte) {
  on_every_platform([](Stream& stream) {
    for (const DType dtype : {DType::kF32, DType::kF64, DType::kBf16, DType::kF16, DType::kI32}) {
      for (const std::int64_t count : kElementwiseCounts) {
        SCOPED_TRACE(say(name_of(dtype), " x ", count));
        Values values = random_values(count, 1, dtype, 100);
        if (dtype == DType::kI32) {
          for (double& value : values) value = std::floor(value);
        }
        const Held from(stream, {count}, dtype, values), to(stream, {count}, dtype);
        copy(stream, to, from);
        EXPECT_EQ(to.values(), values);
        zero(stream, to);
        EXPECT_EQ(to.bits(), std::vector<std::byte>(to.bits().size()));
      }
    }
  });
}

TEST(Elementwise, cast_goes_to_the_nearest_even) {
  on_every_platform([](Stream& stream) {
    // Halfway cases of bfloat16, float16 and float32, and doubles just beside a bfloat16's and a
    // float16's halfway that a detour over float32 would round onto it.
    Values values{0.0,
                  -0.0,
                  1.0,
                  1 + 0x1p-8,
                  1 + 3 * 0x1p-8,
                  1 + 0x1p-24,
                  1 + 3 * 0x1p-24,
                  1 + 0x1p-8 + 0x1p-40,
                  1 + 3 * 0x1p-8 - 0x1p-40,
                  1 + 0x1p-11,
                  1 + 3 * 0x1p-11,
                  1 + 0x1p-11 + 0x1p-40,
                  1 + 3 * 0x1p-11 - 0x1p-40,
                  0x1p-24,
                  0x1p-25,
                  -0x1p-25 - 0x1p-60,
                  3 * 0x1p-25,
                  1023.5 * 0x1p-24,
                  65504,
                  65519.99,
                  -65520,
                  1e300,
                  -1e300,
                  1e-300,
                  3.4028235e38,
                  3.39e38,
                  0x1p-133,
                  0x1p-149,
                  kInfinity,
                  -kInfinity,
                  kNan};
    const Values more = random_values(500, 1, DType::kF64, 100);
    values.insert(values.end(), more.begin(), more.end());
    const auto count = static_cast<std::int64_t>(values.size());
    const auto nearest = [](double value, DType dtype) {
      if (dtype == DType::kF64 || !std::isfinite(value)) return value;
      const int digits = dtype == DType::kF32 ? 24 : dtype == DType::kF16 ? 11 : 8;
      const int largest = dtype == DType::kF16 ? 15 : 127;  // exponent
      // The spacing of dtype's numbers around `value`; beyond the largest, infinity.
      const int exponent = std::max(std::ilogb(value == 0 ? 1 : value), 1 - largest) - (digits - 1);
      const double result = std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
      const double most = std::ldexp(2 - std::ldexp(1.0, 1 - digits), largest);
      return std::fabs(result) > most ? std::copysign(kInfinity, result) : result;
    };
    for (const DType from : kFloats) {
      for (const DType to : kFloats) {
        SCOPED_TRACE(say(name_of(from), " to ", name_of(to)));
        Values start, expected;
        for (const double value : values) {
          start.push_back(nearest(value, from));
          expected.push_back(nearest(start.back(), to));
        }
        const Held x(stream, {count}, from, start), y(stream, {count}, to);
        cast(stream, y, x);
        const Values got = y.values();
        for (std::size_t i = 0; i < got.size(); ++i) {
          if (std::isnan(expected[i])) {
            EXPECT_TRUE(std::isnan(got[i]));
          } else {
            EXPECT_EQ(got[i], expected[i]) << "from " << values[i];
            EXPECT_EQ(std::signbit(got[i]), std::signbit(expected[i])) << "from " << values[i];
          }
        }
      }
    }
  });
}

TEST(Elementwise, cast_knows_every_float16) {
  on_every_platform([](Stream& stream) {
    constexpr std::int64_t kCount = 65536;
    Values values;
    for (std::uint32_t bits = 0; bits < kCount; ++bits) {
      F16 half;
      half.bits = static_cast<std::uint16_t>(bits);
      values.push_back(static_cast<double>(static_cast<float>(half)));
    }
    const Held halves(stream, {kCount}, DType::kF16, values), back(stream, {kCount}, DType::kF16);
    for (const DType wide : {DType::kF32, DType::kF64}) {
      SCOPED_TRACE(name_of(wide));
      const Held x(stream, {kCount}, wide);
      cast(stream, x, halves);
      cast(stream, back, x);
      for (const Values& got : {x.values(), back.values()}) {
        for (std::size_t i = 0; i < got.size(); ++i) {
          if (std::isnan(values[i])) {
            ASSERT_TRUE(std::isnan(got[i])) << i;
          } else {
            ASSERT_EQ(got[i], values[i]) << i;
            ASSERT_EQ(std::signbit(got[i]), std::signbit(values[i])) << i;
          }
        }
      }
    }
  });
}

TEST(Elementwise, sum_is_float64_whatever_it_adds) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const std::int64_t count : kElementwiseCounts) {
      SCOPED_TRACE(count);
      const Values x = random_values(count, 1, dtype);
      long double expected = 0, size = 0;
      for (const double value : x) expected += value, size += std::fabs(value);
      const Held values(stream, {count}, dtype, x), total(stream, {1}, DType::kF64);
      sum(stream, total, values);
      // 32 accumulators and pieces of 4096: a few hundred additions deep at most.
      expect_values(total, {static_cast<double>(expected)}, 8, static_cast<double>(size));
    }
  });
}

TEST(Elementwise, nan_is_summed_and_added_to_nan) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    Values x(300, 1.0);
    x[299] = kNan;
    const Held values(stream, {300}, dtype, x), total(stream, {1}, DType::kF64);
    sum(stream, total, values);
    EXPECT_TRUE(std::isnan(total.values()[0]));
    add(stream, values, values, values);
    EXPECT_TRUE(std::isnan(values.values()[299]));
    EXPECT_EQ(values.values()[298], 2);
  });
}

TEST(Bias, gradient_is_the_column_sums) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const DType sums = accumulator_of(dtype);
    for (const std::int64_t rows : {0, 1, 5, 700}) {
      for (const std::int64_t width : {1, 3, 17, 64, 100, 1300}) {
        for (const Accumulate accumulate : {Accumulate::kReplace, Accumulate::kAdd}) {
          SCOPED_TRACE(say(rows, " x ", width, accumulate == Accumulate::kAdd ? " added" : ""));
          const Values x = random_values(rows * width, 1, dtype);
          const Values before = random_values(width, 2, sums);
          Values expected = accumulate == Accumulate::kAdd ? before : Values(width, 0.0);
          for (std::size_t i = 0; i < x.size(); ++i) expected[i % width] += x[i];
          const Held dy(stream, {rows, width}, dtype, x);
          const Held dbias(stream, {width}, sums,
                           accumulate == Accumulate::kAdd ? before : Values{});
          bias_backward(stream, dbias, dy, accumulate);
          // 8 rows in the accumulator, whose partial sums are below 8 times 3, the
          // rest in float64, here up to a few hundred roundings of the whole sum.
          expect_values(dbias, expected, 32, sums == DType::kF64 ? 1000 : 32);
        }
      }
    }
  });
}

TEST(Elementwise, bits_do_not_depend_on_threads) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const std::int64_t rows = 301, width = 1003, count = rows * width;
    const Held a(stream, {rows, width}, dtype, random_values(count, 1, dtype));
    const Held b(stream, {rows, width}, dtype, random_values(count, 2, dtype));
    expect_thread_independent([&] {
      const Held y(stream, {count}, dtype), total(stream, {1}, DType::kF64);
      const Held wide(stream, {count}, DType::kF64), dbias(stream, {width}, accumulator_of(dtype));
      add(stream, y, a, b);
      sum(stream, total, a);
      cast(stream, wide, a);
      bias_backward(stream, dbias, a, Accumulate::kReplace);
      return joined({&y, &total, &wide, &dbias});
    });
  });
}

}  // namespace
}  // namespace trireme::ops
