#include "model/ops/activation.h"

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

const std::int64_t kActivationCounts[] = {0, 1, 3, 17, 64, 100, 1000};

double gelu_of(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_slope(double x) {
  const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  const double inner = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
}
double silu_of(double x) {
  return x / (1 + std::exp(-x));
}
double silu_slope(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return s * (1 + x * (1 - s));
}

// Values of all sizes that matter: small, usual, and far out on both sides.
Values spread_values(std::int64_t count, std::uint32_t seed, DType dtype) {
  Values values = random_values(count, seed, dtype, 3);
  for (std::size_t i = 0; i < values.size(); i += 7) values[i] = rounded(values[i] * 30, dtype);
  for (std::size_t i = 3; i < values.size(); i += 11) values[i] = rounded(values[i] * 1e-4, dtype);
  return values;
}

TEST(Gelu, forward_is_the_tanh_formula) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const std::int64_t count : kActivationCounts) {
      SCOPED_TRACE(count);
      const Values x = spread_values(count, 1, dtype);
      Values expected;
      for (const double value : x) expected.push_back(gelu_of(value));
      const Held input(stream, {count}, dtype, x), y(stream, {count}, dtype);
      gelu(stream, y, input);
      // The exponent of the sigmoid is off by a few roundings of itself, where
      // x sigmoid(2u) is at most 3 in size on the side that decays.
      expect_values(y, expected, 8, 3);
    }
  });
}

// Relative to each value: a float32 gelu is good to a few units in the last place
// where it matters, not only beside the largest of them.
TEST(Gelu, float32_is_relatively_precise_near_zero_and_to_the_right) {
  on_every_platform([](Stream& stream) {
    Values x;
    for (double v = -1; v < 12; v += 0.0137) x.push_back(rounded(v, DType::kF32));
    const Shape shape{static_cast<std::int64_t>(x.size())};
    const Held input(stream, shape, DType::kF32, x), y(stream, shape, DType::kF32);
    gelu(stream, y, input);
    const Values got = y.values();
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(got[i] / gelu_of(x[i]), 1, 8 * 0x1p-24) << "at x = " << x[i];
    }
  });
}

TEST(Gelu, backward_is_the_formula_and_may_be_in_place) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const std::int64_t count : kActivationCounts) {
      SCOPED_TRACE(count);
      const Values x = spread_values(count, 1, dtype), dy = random_values(count, 2, dtype);
      Values expected;
      for (std::size_t i = 0; i < x.size(); ++i) expected.push_back(dy[i] * gelu_slope(x[i]));
      const Held input(stream, {count}, dtype, x), dx(stream, {count}, dtype);
      const Held gradient(stream, {count}, dtype, dy);
      gelu_backward(stream, dx, gradient, input);
      // As above, times the slope of 2u: at most 4 where the sigmoid's slope is not nothing.
      expect_values(dx, expected, 16, 5 * 4);
      gelu_backward(stream, gradient, gradient, input);
      EXPECT_EQ(gradient.bits(), dx.bits());
    }
  });
}

TEST(Gelu, backward_is_the_derivative) {
  on_every_platform([](Stream& stream) {
    const Values x = random_values(33, 1, DType::kF64, 2), dy = random_values(33, 2);
    const Held gradient(stream, {33}, DType::kF64, dy), dx(stream, {33}, DType::kF64);
    const Held y(stream, {33}, DType::kF64);
    gelu_backward(stream, dx, gradient, Held(stream, {33}, DType::kF64, x));
    expect_gradient(
        [&](const Values& changed) {
          gelu(stream, y, Held(stream, {33}, DType::kF64, changed));
          return dot(y.values(), dy);
        },
        x, dx.values());
  });
}

TEST(Gelu, extremes_go_to_zero_or_through_and_nan_stays) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const Values x{kNan, 1e4, -1e4, 0, 300, -300};
    const Held input(stream, {6}, dtype, x), y(stream, {6}, dtype), dx(stream, {6}, dtype);
    gelu(stream, y, input);
    gelu_backward(stream, dx, Held(stream, {6}, dtype, Values(6, 1.0)), input);
    const Values got = y.values(), slope = dx.values();
    EXPECT_TRUE(std::isnan(got[0]) && std::isnan(slope[0]));
    EXPECT_EQ(got[1], rounded(1e4, dtype));
    EXPECT_EQ(got[2], 0);
    EXPECT_EQ(got[3], 0);
    EXPECT_EQ(slope[1], 1);
    EXPECT_EQ(slope[2], 0);
    EXPECT_EQ(slope[3], 0.5);
    EXPECT_EQ(slope[4], 1);
    EXPECT_EQ(slope[5], 0);
  });
}

TEST(Swiglu, forward_and_backward_are_the_formula) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const std::int64_t rows : {0, 1, 5}) {
      for (const std::int64_t width : {1, 3, 17, 64, 100}) {
        SCOPED_TRACE(say(rows, " x ", width));
        const Values x = spread_values(rows * 2 * width, 1, dtype);
        const Values dy = random_values(rows * width, 2, dtype);
        Values y(dy.size()), dx(x.size());
        double scale = 1;
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t i = 0; i < width; ++i) {
            const std::int64_t at = row * width + i, g = row * 2 * width + i, u = g + width;
            y[at] = silu_of(x[g]) * x[u];
            dx[g] = dy[at] * x[u] * silu_slope(x[g]);
            dx[u] = dy[at] * silu_of(x[g]);
            scale = std::max({scale, std::fabs(x[u]), std::fabs(y[at])});
          }
        }
        const Held input(stream, {rows, 2 * width}, dtype, x), out(stream, {rows, width}, dtype);
        const Held gradient(stream, {rows, width}, dtype, dy);
        const Held din(stream, {rows, 2 * width}, dtype);
        swiglu(stream, out, input);
        swiglu_backward(stream, din, gradient, input);
        // |x| of the sigmoid's decaying side costs its exponent that many roundings,
        // where |x| e^-|x| is below 0.4.
        expect_values(out, y, 8, scale);
        expect_values(din, dx, 16, 4 * scale);
      }
    }
  });
}

TEST(Swiglu, backward_is_the_derivative) {
  on_every_platform([](Stream& stream) {
    const Values x = random_values(3 * 14, 1, DType::kF64, 2), dy = random_values(3 * 7, 2);
    const Held gradient(stream, {3, 7}, DType::kF64, dy), dx(stream, {3, 14}, DType::kF64);
    const Held y(stream, {3, 7}, DType::kF64);
    swiglu_backward(stream, dx, gradient, Held(stream, {3, 14}, DType::kF64, x));
    expect_gradient(
        [&](const Values& changed) {
          swiglu(stream, y, Held(stream, {3, 14}, DType::kF64, changed));
          return dot(y.values(), dy);
        },
        x, dx.values());
  });
}

TEST(Swiglu, nan_in_gate_or_up_stays_in_its_place) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    Values x(2 * 20, 0.5);
    x[2] = kNan;
    x[20 + 19] = kNan;
    const Held input(stream, {1, 40}, dtype, x), y(stream, {1, 20}, dtype);
    swiglu(stream, y, input);
    const Values got = y.values();
    for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(std::isnan(got[i]), i == 2 || i == 19);
  });
}

TEST(Activation, bits_do_not_depend_on_threads) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const std::int64_t rows = 41, width = 1001;
    const Held x(stream, {rows, 2 * width}, dtype, spread_values(rows * 2 * width, 1, dtype));
    const Held dy(stream, {rows, width}, dtype, random_values(rows * width, 2, dtype));
    expect_thread_independent([&] {
      const Held y(stream, {rows, width}, dtype), dx(stream, {rows, 2 * width}, dtype);
      const Held g(stream, {rows, 2 * width}, dtype), dg(stream, {rows, 2 * width}, dtype);
      swiglu(stream, y, x);
      swiglu_backward(stream, dx, dy, x);
      gelu(stream, g, x);
      gelu_backward(stream, dg, x, x);
      return joined({&y, &dx, &g, &dg});
    });
  });
}

}  // namespace
}  // namespace trireme::ops
