#include "model/ops/activation.h"

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

constexpr Activation kKinds[] = {Activation::kGelu, Activation::kGeluTanh, Activation::kRelu2,
                                 Activation::kSilu};
const std::int64_t kActivationCounts[] = {0, 1, 3, 17, 64, 100, 1000};

const char* name_of_kind(Activation kind) {
  constexpr const char* kNames[] = {"gelu", "gelu_tanh", "relu2", "silu"};
  return kNames[static_cast<int>(kind)];
}

double value_of(Activation kind, double x) {
  switch (kind) {
    case Activation::kGelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Activation::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::kRelu2:
      return x > 0 ? x * x : 0;
    default:
      return x / (1 + std::exp(-x));
  }
}
double slope_of(Activation kind, double x) {
  switch (kind) {
    case Activation::kGelu:
      return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
    case Activation::kGeluTanh: {
      const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
      const double inner = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
    }
    case Activation::kRelu2:
      return x > 0 ? 2 * x : 0;
    default: {
      const double s = 1 / (1 + std::exp(-x));
      return s * (1 + x * (1 - s));
    }
  }
}

// Values of all sizes that matter: small, usual, and far out on both sides.
Values spread_values(std::int64_t count, std::uint32_t seed, DType dtype) {
  Values values = random_values(count, seed, dtype, 3);
  for (std::size_t i = 0; i < values.size(); i += 7) values[i] = rounded(values[i] * 30, dtype);
  for (std::size_t i = 3; i < values.size(); i += 11) values[i] = rounded(values[i] * 1e-4, dtype);
  return values;
}

// Infinite where float16 cannot hold it.
double held(double value, DType dtype) {
  return dtype == DType::kF16 && std::isinf(rounded(value, dtype)) ? rounded(value, dtype) : value;
}

// Calls body(stream, dtype, kind) on every platform.
template <class Body>
void with_every_kind(const Body& body) {
  on_every_platform_and_dtype([&](Stream& stream, DType dtype) {
    for (const Activation kind : kKinds) {
      SCOPED_TRACE(name_of_kind(kind));
      body(stream, dtype, kind);
    }
  });
}

TEST(Activate, forward_is_the_formula) {
  with_every_kind([](Stream& stream, DType dtype, Activation kind) {
    for (const std::int64_t count : kActivationCounts) {
      SCOPED_TRACE(count);
      const Values x = spread_values(count, 1, dtype);
      Values expected;
      for (const double value : x) expected.push_back(held(value_of(kind, value), dtype));
      const Held input(stream, {count}, dtype, x), y(stream, {count}, dtype);
      activate(stream, y, input, kind);
      // The exponent of the sigmoid is off by a few roundings of itself, where
      // x sigmoid(2u) is at most 3 in size on the side that decays.
      expect_values(y, expected, 8, kind == Activation::kRelu2 ? 0 : 3);
    }
  });
}

// Relative to each value: a float32 activation is good to a few units in the last place
// where it matters, not only beside the largest of them.
TEST(Activate, float32_is_relatively_precise_near_zero_and_to_the_right_and_gelu_on_both_sides) {
  on_every_platform([](Stream& stream) {
    for (const Activation kind : kKinds) {
      Values x;
      for (double v = kind == Activation::kGelu ? -12 : -1; v < 12; v += 0.0137) {
        x.push_back(rounded(v, DType::kF32));
      }
      const Shape shape{static_cast<std::int64_t>(x.size())};
      const Held input(stream, shape, DType::kF32, x), y(stream, shape, DType::kF32);
      activate(stream, y, input, kind);
      const Values got = y.values();
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double expected = value_of(kind, x[i]);
        // The square in the tail's exponential is rounded once.
        const double roundings = 8 + (x[i] < -1 ? x[i] * x[i] / 2 : 0);
        EXPECT_NEAR(got[i], expected, roundings * 0x1p-24 * std::fabs(expected))
            << name_of_kind(kind) << " at x = " << x[i];
      }
    }
  });
}

TEST(Activate, backward_is_the_formula_and_may_be_in_place) {
  with_every_kind([](Stream& stream, DType dtype, Activation kind) {
    for (const std::int64_t count : kActivationCounts) {
      SCOPED_TRACE(count);
      const Values x = spread_values(count, 1, dtype), dy = random_values(count, 2, dtype);
      Values expected;
      for (std::size_t i = 0; i < x.size(); ++i) expected.push_back(dy[i] * slope_of(kind, x[i]));
      const Held input(stream, {count}, dtype, x), dx(stream, {count}, dtype);
      const Held gradient(stream, {count}, dtype, dy);
      activate_backward(stream, dx, gradient, input, kind);
      // As above, times the slope of 2u: at most 4 where the sigmoid's slope is not nothing.
      expect_values(dx, expected, 16, kind == Activation::kRelu2 ? 0 : 5 * 4);
      activate_backward(stream, gradient, gradient, input, kind);
      EXPECT_EQ(gradient.bits(), dx.bits());
    }
  });
}

TEST(Activate, backward_is_the_derivative) {
  on_every_platform([](Stream& stream) {
    for (const Activation kind : kKinds) {
      SCOPED_TRACE(name_of_kind(kind));
      Values x = random_values(33, 1, DType::kF64, 2);
      // Away from relu2's corner, where differences of fourth order do not apply.
      for (double& value : x) value += std::copysign(0.01, value);
      const Values dy = random_values(33, 2);
      const Held gradient(stream, {33}, DType::kF64, dy), dx(stream, {33}, DType::kF64);
      const Held y(stream, {33}, DType::kF64);
      activate_backward(stream, dx, gradient, Held(stream, {33}, DType::kF64, x), kind);
      expect_gradient(
          [&](const Values& changed) {
            activate(stream, y, Held(stream, {33}, DType::kF64, changed), kind);
            return dot(y.values(), dy);
          },
          x, dx.values());
    }
  });
}

TEST(Activate, extremes_go_to_zero_or_through_and_nan_stays) {
  with_every_kind([](Stream& stream, DType dtype, Activation kind) {
    // Of float32 the tanh formula cubes.
    const double far = dtype == DType::kF16 || kind == Activation::kGeluTanh ? 6e4 : 1e30;
    const Values x{kNan, 1e4, -1e4, 0, 300, -300, -far};
    const Held input(stream, {7}, dtype, x), y(stream, {7}, dtype), dx(stream, {7}, dtype);
    activate(stream, y, input, kind);
    activate_backward(stream, dx, Held(stream, {7}, dtype, Values(7, 1.0)), input, kind);
    const Values got = y.values(), slope = dx.values();
    EXPECT_TRUE(std::isnan(got[0]) && std::isnan(slope[0]));
    for (const std::size_t i : {1, 4}) {
      const double there = rounded(x[i], dtype);
      EXPECT_EQ(got[i], rounded(value_of(kind, there), dtype)) << x[i];
      EXPECT_EQ(slope[i], rounded(slope_of(kind, there), dtype)) << x[i];
    }
    for (const std::size_t i : {2, 5, 6}) {
      EXPECT_NEAR(got[i], 0, 1e-100) << x[i];
      EXPECT_NEAR(slope[i], 0, 1e-100) << x[i];
    }
    EXPECT_EQ(got[3], 0);
    EXPECT_NEAR(slope[3], slope_of(kind, 0), 0x1p-23);
  });
}

TEST(Gate, forward_and_backward_are_the_formula) {
  with_every_kind([](Stream& stream, DType dtype, Activation kind) {
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
            y[at] = value_of(kind, x[g]) * x[u];
            dx[g] = dy[at] * x[u] * slope_of(kind, x[g]);
            dx[u] = dy[at] * value_of(kind, x[g]);
            scale = std::max({scale, std::fabs(x[u]), std::fabs(y[at]), std::fabs(dx[g]) / 4});
            for (double* value : {&y[at], &dx[g], &dx[u]}) *value = held(*value, dtype);
          }
        }
        const Held input(stream, {rows, 2 * width}, dtype, x), out(stream, {rows, width}, dtype);
        const Held gradient(stream, {rows, width}, dtype, dy);
        const Held din(stream, {rows, 2 * width}, dtype);
        gate(stream, out, input, kind);
        gate_backward(stream, din, gradient, input, kind);
        // |x| of the sigmoid's decaying side costs its exponent that many roundings,
        // where |x| e^-|x| is below 0.4.
        expect_values(out, y, 8, scale);
        expect_values(din, dx, 16, 4 * scale);
      }
    }
  });
}

TEST(Gate, backward_is_the_derivative) {
  on_every_platform([](Stream& stream) {
    for (const Activation kind : kKinds) {
      SCOPED_TRACE(name_of_kind(kind));
      Values x = random_values(3 * 14, 1, DType::kF64, 2);
      for (double& value : x) value += std::copysign(0.01, value);
      const Values dy = random_values(3 * 7, 2);
      const Held gradient(stream, {3, 7}, DType::kF64, dy), dx(stream, {3, 14}, DType::kF64);
      const Held y(stream, {3, 7}, DType::kF64);
      gate_backward(stream, dx, gradient, Held(stream, {3, 14}, DType::kF64, x), kind);
      expect_gradient(
          [&](const Values& changed) {
            gate(stream, y, Held(stream, {3, 14}, DType::kF64, changed), kind);
            return dot(y.values(), dy);
          },
          x, dx.values());
    }
  });
}

TEST(Gate, nan_in_gate_or_up_stays_in_its_place) {
  with_every_kind([](Stream& stream, DType dtype, Activation kind) {
    Values x(2 * 20, 0.5);
    x[2] = kNan;
    x[20 + 19] = kNan;
    const Held input(stream, {1, 40}, dtype, x), y(stream, {1, 20}, dtype);
    gate(stream, y, input, kind);
    const Values got = y.values();
    for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(std::isnan(got[i]), i == 2 || i == 19);
  });
}

constexpr double kLimit = 2.5;

// gpt-oss's unit of a gate and its up, and its derivatives.
struct Clamped {
  double y = 0, dgate = 0, dup = 0;
  Clamped(double gate, double up) {
    const double g = std::min(gate, kLimit), u = std::clamp(up, -kLimit, kLimit) + 1;
    const double s = 1 / (1 + std::exp(-1.702 * g));
    y = u * g * s;
    dgate = gate > kLimit ? 0 : u * s * (1 + 1.702 * g * (1 - s));
    dup = std::fabs(up) > kLimit ? 0 : g * s;
  }
};

TEST(ClampedGate, forward_and_backward_are_the_formula) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    for (const std::int64_t rows : {0, 1, 5}) {
      for (const std::int64_t width : {1, 3, 17, 64, 100}) {
        SCOPED_TRACE(say(rows, " x ", width));
        Values x = spread_values(rows * 2 * width, 1, dtype);
        for (std::size_t i = 0; i < x.size(); i += 5) x[i] = i % 2 == 0 ? kLimit : -kLimit;
        const Values dy = random_values(rows * width, 2, dtype);
        Values y(dy.size()), dx(x.size());
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t i = 0; i < width; ++i) {
            const std::int64_t at = row * width + i, g = row * 2 * width + i, u = g + width;
            const Clamped unit(x[g], x[u]);
            y[at] = unit.y;
            dx[g] = dy[at] * unit.dgate;
            dx[u] = dy[at] * unit.dup;
          }
        }
        const Held input(stream, {rows, 2 * width}, dtype, x), out(stream, {rows, width}, dtype);
        const Held gradient(stream, {rows, width}, dtype, dy);
        const Held din(stream, {rows, 2 * width}, dtype);
        gate(stream, out, input, Activation::kSilu, kLimit);
        gate_backward(stream, din, gradient, input, Activation::kSilu, kLimit);
        expect_values(out, y, 8, 3);
        expect_values(din, dx, 16, 12);
      }
    }
  });
}

TEST(ClampedGate, backward_is_the_derivative) {
  on_every_platform([](Stream& stream) {
    Values x = random_values(3 * 14, 1, DType::kF64, 2);
    // Away from the corners, where differences of fourth order do not apply.
    for (double& value : x) {
      if (std::fabs(std::fabs(value) - kLimit) < 0.01) value *= 0.9;
    }
    ASSERT_TRUE(std::any_of(x.begin(), x.end(), [](double v) { return v > kLimit; }));
    const Values dy = random_values(3 * 7, 2);
    const Held gradient(stream, {3, 7}, DType::kF64, dy), dx(stream, {3, 14}, DType::kF64);
    const Held y(stream, {3, 7}, DType::kF64);
    gate_backward(stream, dx, gradient, Held(stream, {3, 14}, DType::kF64, x), Activation::kSilu,
                  kLimit);
    expect_gradient(
        [&](const Values& changed) {
          gate(stream, y, Held(stream, {3, 14}, DType::kF64, changed), Activation::kSilu, kLimit);
          return dot(y.values(), dy);
        },
        x, dx.values());
  });
}

TEST(ClampedGate, nan_stays_and_other_activations_are_an_error) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    Values x(2 * 20, 0.5);
    x[2] = x[20 + 19] = kNan;
    const Held input(stream, {1, 40}, dtype, x), y(stream, {1, 20}, dtype);
    gate(stream, y, input, Activation::kSilu, kLimit);
    const Values got = y.values();
    for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(std::isnan(got[i]), i == 2 || i == 19);
    EXPECT_THROW(gate(stream, y, input, Activation::kGelu, kLimit), Error);
    EXPECT_THROW(gate(stream, y, input, Activation::kSilu, -1), Error);
  });
}

TEST(Activate, bits_do_not_depend_on_threads) {
  with_every_kind([](Stream& stream, DType dtype, Activation kind) {
    const std::int64_t rows = 41, width = 501;
    const Held x(stream, {rows, 2 * width}, dtype, spread_values(rows * 2 * width, 1, dtype));
    const Held dy(stream, {rows, width}, dtype, random_values(rows * width, 2, dtype));
    expect_thread_independent([&] {
      const Held y(stream, {rows, width}, dtype), dx(stream, {rows, 2 * width}, dtype);
      const Held g(stream, {rows, 2 * width}, dtype), dg(stream, {rows, 2 * width}, dtype);
      gate(stream, y, x, kind);
      gate_backward(stream, dx, dy, x, kind);
      activate(stream, g, x, kind);
      activate_backward(stream, dg, x, x, kind);
      return joined({&y, &dx, &g, &dg});
    });
  });
}

}  // namespace
}  // namespace trireme::ops
