#include "model/ops/direction.h"

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

constexpr std::int64_t kDirectionCounts[] = {0, 1, 3, 17, 64, 20001};

// Calls body(stream, dtype, count) for the dtypes that directions have.
template <class Body>
void on_every_accumulator(const Body& body) {
  on_every_platform([&](Stream& stream) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      for (const std::int64_t count : kDirectionCounts) {
        SCOPED_TRACE(say(name_of(dtype), " ", count));
        body(stream, dtype, count);
      }
    }
  });
}

TEST(AdamDirection, is_the_published_one_and_stops_at_nan) {
  on_every_accumulator([](Stream& stream, DType dtype, std::int64_t count) {
    const AdamDirection how{
        .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1, .step = 3};
    const Values w = random_values(count, 1, dtype), g = random_values(count, 2, dtype);
    Values m = random_values(count, 3, dtype, 0.1), v = random_values(count, 4, dtype, 0.1);
    for (double& x : v) x = rounded(x * x + 0.01, dtype);
    const Held weight(stream, {count}, dtype, w), grad(stream, {count}, dtype, g);
    const Held first(stream, {count}, dtype, m), second(stream, {count}, dtype, v);
    const Held nan(stream, {1}, dtype, {kNan}), half(stream, {1}, dtype, {0.5});
    const UpdateTensors tensors{weight, weight, grad, {first, second}};
    adam_direction(stream, tensors, nan, how);
    EXPECT_EQ(grad.values(), g);
    EXPECT_EQ(first.values(), m);
    EXPECT_EQ(second.values(), v);
    adam_direction(stream, tensors, half, how);
    Values expected(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double scaled = g[i] * 0.5;
      m[i] = 0.9 * m[i] + (1 - 0.9) * scaled;
      v[i] = 0.95 * v[i] + (1 - 0.95) * scaled * scaled;
      const double unbiased = v[i] / (1 - 0.95 * 0.95 * 0.95);
      expected[i] = m[i] / (1 - 0.9 * 0.9 * 0.9) / (std::sqrt(unbiased) + 1e-6) + 0.1 * w[i];
    }
    expect_values(first, m, 4, 1);
    expect_values(second, v, 6, 1);
    expect_values(grad, expected, 16, 16);
  });
}

TEST(MomentumDirection, is_the_published_one_and_stops_at_nan) {
  for (const bool nesterov : {false, true}) {
    on_every_accumulator([&](Stream& stream, DType dtype, std::int64_t count) {
      const Values g = random_values(count, 1, dtype);
      Values m = random_values(count, 2, dtype);
      const Held grad(stream, {count}, dtype, g), momentum(stream, {count}, dtype, m);
      const Held weight(stream, {count}, dtype, g);
      const UpdateTensors tensors{weight, weight, grad, {momentum}};
      const Held nan(stream, {1}, dtype, {kNan}), half(stream, {1}, dtype, {0.5});
      momentum_direction(stream, tensors, nan, 0.95, nesterov);
      EXPECT_EQ(grad.values(), g);
      EXPECT_EQ(momentum.values(), m);
      momentum_direction(stream, tensors, half, 0.95, nesterov);
      Values expected(g.size());
      for (std::size_t i = 0; i < g.size(); ++i) {
        const double scaled = g[i] * 0.5;
        m[i] += 0.05 * (scaled - m[i]);
        expected[i] = nesterov ? scaled + 0.95 * (m[i] - scaled) : m[i];
      }
      expect_values(momentum, m, 8, 4);
      expect_values(grad, expected, 12, 4);
    });
  }
}

TEST(Follow, moves_the_weights_and_stops_at_nan) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const DType sums = accumulator_of(dtype);
    for (const std::int64_t count : kDirectionCounts) {
      for (const bool has_master : {true, false}) {
        if (!has_master && size_of(dtype) == 2) continue;
        const Values w = random_values(count, 1, sums), d = random_values(count, 2, sums);
        const Held master(stream, {count}, sums, w), direction(stream, {count}, sums, d);
        const Held value(stream, {count}, dtype, has_master ? Values(w.size(), 9.0) : w);
        const Held nan(stream, {1}, sums, {kNan}), one(stream, {1}, sums, {1});
        const Held ratio(stream, {1}, sums, {0.25});
        const UpdateTensors tensors{value, has_master ? master : value, direction};
        const DirectionStep how{.rate = 0.1, .decay = 0.01, .ratio = ratio};
        const Values before = value.values();
        apply_direction(stream, tensors, nan, how);
        EXPECT_EQ(value.values(), before);
        EXPECT_EQ(master.values(), w);
        apply_direction(stream, tensors, one, how);
        Values expected(w.size());
        for (std::size_t i = 0; i < w.size(); ++i) {
          expected[i] = w[i] - 0.01 * w[i] - 0.025 * d[i];
        }
        expect_values(has_master ? master : value, expected, 4, 4);
        if (has_master) expect_values(value, master.values(), 0, 1e-300);
      }
    }
  });
}

TEST(Axpby, adds_multiples_and_reads_y_only_where_it_counts) {
  on_every_accumulator([](Stream& stream, DType dtype, std::int64_t count) {
    const Values a = random_values(count, 1, dtype), b = random_values(count, 2, dtype);
    const Held x(stream, {count}, dtype, a), y(stream, {count}, dtype, b),
        fresh(stream, {count}, dtype);
    const Held factor(stream, {1}, dtype, {0.5});
    axpby(stream, y, x, {.alpha = 3, .beta = -2, .factor = factor});
    axpby(stream, fresh, x, {.alpha = 3});
    axpby(stream, x, x, {.factor = factor});
    Values both(a.size()), thrice(a.size()), half(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      both[i] = 1.5 * a[i] - 2 * b[i];
      thrice[i] = 3 * a[i];
      half[i] = 0.5 * a[i];
    }
    expect_values(y, both, 4, 16);
    expect_values(fresh, thrice, 1, 16);
    EXPECT_EQ(x.values(), half);
  });
}

TEST(Directions, wrong_tensors_are_refused) {
  Stream stream;
  const Held four(stream, {4}, DType::kF32), five(stream, {5}, DType::kF32);
  const Held halves(stream, {4}, DType::kBf16), one(stream, {1}, DType::kF32);
  EXPECT_THROW(momentum_direction(stream, {four, four, four, {five}}, one, 0.9, true), Error);
  EXPECT_THROW(apply_direction(stream, {halves, halves, four}, one, {.rate = 1}), Error);
  EXPECT_THROW(axpby(stream, halves, halves, {}), Error);
  EXPECT_THROW(adam_direction(stream, {four, four, four, {four, four}}, one, {.step = 0}), Error);
}

}  // namespace
}  // namespace trireme::ops
