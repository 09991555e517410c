#include "model/layers/linear.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "model/ops/elementwise.h"
#include "tests/model/layers/gradient_check.h"

namespace trireme::test {
namespace {

TEST(Linear, gradients_are_those_of_the_product_and_the_bias) {
  LayerBench bench;
  Weight& weight = bench.params.declare(
      std::vector<ParamSpec>{{.name = "a", .shape = {3, 5}, .init_scale = 1, .decay = true},
                             {.name = "b", .shape = {4, 5}, .init_scale = 1, .decay = true}});
  Weight& bias = bench.params.declare({.name = "bias", .shape = {7}, .init = Init::kZeros});
  bench.allocate();
  const Linear linear(weight, &bias);
  const Tensor x = bench.random({6, 5}, "x");
  const Tensor r = bench.random({6, 7}, "r");
  Linear::Saved saved;
  const auto forward = [&] { return linear.forward(bench.ctx, bench.keep, x, saved); };
  bench.check(
      {x}, [&] { return dot(r, forward()); },
      [&] {
        forward();
        Linear::Gradient gradient(r);
        const Tensor dx = linear.backward_input(bench.ctx, gradient);
        linear.backward_weight(bench.ctx, gradient, saved);
        return std::vector{dx};
      });
}

// A linear layer in float8, with memory for its work.
struct Float8Linear {
  static constexpr std::int64_t kTokens = 48, kIn = 80, kOut = 112;
  explicit Float8Linear(bool with_bias)
      : weight(params.declare({.name = "w", .shape = {kOut, kIn}, .init_scale = 0.02})),
        bias(with_bias ? &params.declare({.name = "b", .shape = {kOut}, .init_scale = 0.02})
                       : nullptr),
        linear(weight, bias, MatmulPrecision::kFloat8) {
    params.allocate({weights, masters, &gradients}, DType::kBf16);
    params.initialize(1);
    params.expect_gradients();
  }
  // Normal numbers that depend on the name alone, in bfloat16.
  Tensor random(Arena& arena, Shape shape, const char* name, double scale) {
    const Arena::Frame frame(scratch);
    const Tensor wide = scratch.take(shape, DType::kF64), tensor = arena.take(shape, DType::kBf16);
    fill_normal(wide, name, scale);
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      tensor.as<Bf16>()[i] = Bf16(static_cast<float>(wide.as<double>()[i]));
    }
    return tensor;
  }
  Arena weights{1 << 20}, masters{1 << 20}, gradients{1 << 20}, keep{1 << 20}, scratch{1 << 20};
  ParamStore params;
  Weight& weight;
  Weight* const bias;
  Linear linear;
};

// What rounding all of a tensor to float8 with its one scale makes of it, in float64.
template <Float8Format kFormat>
std::vector<double> in_float8(const Tensor& tensor) {
  float amax = 0;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    amax = std::max(amax, std::fabs(static_cast<float>(tensor.as<Bf16>()[i])));
  }
  const Float8Scale factor = float8_scale(kFormat, amax);
  std::vector<double> values;
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const float scaled = static_cast<float>(tensor.as<Bf16>()[i]) * factor.scale;
    values.push_back(static_cast<double>(from_float8(to_float8<kFormat>(scaled), kFormat)) *
                     static_cast<double>(factor.inverse));
  }
  return values;
}

// sum over p of a(p) b(p) within what float32 sums and a rounding to `unit` leave of it.
template <class A, class B>
void expect_sum(double got, std::int64_t terms, double unit, double start, const A& a, const B& b) {
  double sum = start, magnitude = std::fabs(start);
  for (std::int64_t p = 0; p < terms; ++p) {
    sum += a(p) * b(p);
    magnitude += std::fabs(a(p) * b(p));
  }
  ASSERT_NEAR(got, sum,
              static_cast<double>(terms + 2) * 0x1p-24 * magnitude + unit * std::fabs(sum));
}

TEST(Linear, in_float8_multiplies_what_its_factors_are_rounded_to) {
  Float8Linear test(true);
  constexpr std::int64_t kTokens = Float8Linear::kTokens, kIn = Float8Linear::kIn,
                         kOut = Float8Linear::kOut;
  const Tensor x = test.random(test.keep, {kTokens, kIn}, "x", 1);
  const Tensor dy = test.random(test.keep, {kTokens, kOut}, "dy", 1e-5);
  const Linear& linear = test.linear;
  Stream stream;
  trireme::ExecContext ctx{stream, test.keep, test.scratch};
  Linear::Saved saved;
  const Tensor y = linear.forward(ctx, test.keep, x, saved);
  Linear::Gradient gradient(dy);
  const Tensor dx = linear.backward_input(ctx, gradient);
  linear.backward_weight(ctx, gradient, saved);
  linear.backward_weight(ctx, gradient, saved);  // adds
  const std::vector<double> of_x = in_float8<Float8Format::kE4M3>(x);
  const std::vector<double> of_w = in_float8<Float8Format::kE4M3>(test.weight.value);
  const std::vector<double> of_dy = in_float8<Float8Format::kE5M2>(dy);
  const auto element = [](const std::vector<double>& of, std::int64_t i, std::int64_t width,
                          std::int64_t j) { return of[i * width + j]; };
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t j = 0; j < kOut; ++j) {
      expect_sum(
          static_cast<double>(float(y.as<Bf16>()[t * kOut + j])), kIn, 0x1p-8,
          static_cast<double>(float(test.bias->value.as<Bf16>()[j])),
          [&](std::int64_t p) { return element(of_x, t, kIn, p); },
          [&](std::int64_t p) { return element(of_w, j, kIn, p); });
    }
    for (std::int64_t i = 0; i < kIn; ++i) {
      expect_sum(
          static_cast<double>(float(dx.as<Bf16>()[t * kIn + i])), kOut, 0x1p-8, 0,
          [&](std::int64_t p) { return element(of_dy, t, kOut, p); },
          [&](std::int64_t p) { return element(of_w, p, kIn, i); });
    }
  }
  for (std::int64_t j = 0; j < kOut; ++j) {
    double of_bias = 0;
    for (std::int64_t t = 0; t < kTokens; ++t) {
      of_bias += 2 * static_cast<double>(float(dy.as<Bf16>()[t * kOut + j]));
    }
    // The bias's gradient is no product: of dy itself.
    EXPECT_NEAR(test.bias->grad.as<float>()[j], of_bias, 1e-8);
    for (std::int64_t i = 0; i < kIn; ++i) {
      expect_sum(
          static_cast<double>(test.weight.grad.as<float>()[j * kIn + i]), kTokens, 0x1p-23, 0,
          [&](std::int64_t p) { return 2 * element(of_dy, p, kOut, j); },
          [&](std::int64_t p) { return element(of_x, p, kIn, i); });
    }
  }
}

bool has_bits(const Tensor& got, const Tensor& expected) {
  return got.bytes() == expected.bytes() && std::memcmp(got.data, expected.data, got.bytes()) == 0;
}

// Kept codes and scales give the bits of products that quantize all their operands again.
TEST(Linear, in_float8_has_the_bits_of_operands_quantized_for_each_product) {
  using F = Float8Format;
  for (const bool with_bias : {false, true}) {
    for (const bool deferred : {false, true}) {
      for (const bool knows_scale : {true, false}) {
        const bool keeps_codes = with_bias == knows_scale;
        SCOPED_TRACE(say("bias ", with_bias, " deferred ", deferred, " scale ", knows_scale));
        Float8Linear test(with_bias);
        const Linear& linear = test.linear;
        Arena& keep = test.keep;
        const Tensor x = test.random(keep, {test.kTokens, test.kIn}, "x", 1);
        Stream stream;
        DeferredGradients later;
        trireme::ExecContext ctx{stream, keep, test.scratch, deferred ? &later : nullptr};
        if (keeps_codes) {
          test.linear.take_codes(test.weights);
          linear.update_codes(ctx);
        }
        Linear::Saved saved;
        const Tensor y = linear.forward(ctx, keep, x, saved);
        const Tensor dx = keep.take({test.kTokens, test.kIn}, DType::kBf16);
        Arena fresh(1 << 20);
        Tensor dy = test.random(fresh, {test.kTokens, test.kOut}, "dy", 1e-5);
        {
          const Arena::Frame frame(test.scratch);
          const Tensor there = linear.gradient_arena(ctx).take(dy.shape, dy.dtype);
          ops::copy(stream, there, dy);
          Linear::Gradient gradient(there);
          ops::copy(stream, dx, linear.backward_input(ctx, gradient));
          if (!knows_scale) saved.inverse_scale = {};
          linear.backward_weight(ctx, gradient, saved);
        }
        {
          const Arena::Frame frame(test.scratch);
          const auto words = static_cast<std::int64_t>(test.scratch.capacity() / 4);
          const Tensor all = test.scratch.take({words});
          std::memset(all.data, 0xff, all.bytes());
        }
        later.compute(ctx);
        const auto codes = [&](const Tensor& from, F format, bool transpose) {
          return ops::quantize(stream, fresh, from, format, transpose);
        };
        const Tensor& w = test.weight.value;
        const Tensor bias = with_bias ? test.bias->value : Tensor{};
        const Tensor expected_y = fresh.take(y.shape, y.dtype);
        const Tensor expected_dx = fresh.take(dx.shape, dx.dtype);
        const Tensor expected_dw = fresh.take(w.shape, DType::kF32);
        ops::gemm_float8(stream, fresh,
                         {expected_y, codes(x, F::kE4M3, false), codes(w, F::kE4M3, false),
                          ops::Accumulate::kReplace, bias});
        ops::gemm_float8(stream, fresh,
                         {expected_dx, codes(dy, F::kE5M2, false), codes(w, F::kE4M3, true)});
        ops::gemm_float8(stream, fresh,
                         {expected_dw, codes(dy, F::kE5M2, true), codes(x, F::kE4M3, true)});
        EXPECT_TRUE(has_bits(y, expected_y));
        EXPECT_TRUE(has_bits(dx, expected_dx));
        EXPECT_TRUE(has_bits(test.weight.grad, expected_dw));
      }
    }
  }
}

// Six quantizations of their own would move ten bytes for each element of x, dy and w.
TEST(Linear, in_float8_reads_the_gradient_twice_and_the_input_three_times) {
  Float8Linear test(false);
  std::vector<PlannedOp> recorded;
  Tally tally{.ops = &recorded};
  Stream planning(Device{}, tally);
  trireme::ExecContext ctx{planning, test.keep, test.scratch};
  Linear::Saved saved;
  const Tensor x = test.keep.take({test.kTokens, test.kIn}, DType::kBf16);
  Linear::Gradient gradient(test.keep.take({test.kTokens, test.kOut}, DType::kBf16));
  const auto bytes = [&] {
    double sum = 0;
    for (const PlannedOp& op : std::exchange(recorded, {})) {
      if (op.name == std::string_view("quantize")) sum += op.bytes;
    }
    return sum;
  };
  const auto pass = [&] {
    test.linear.forward(ctx, test.keep, x, saved);
    test.linear.backward_input(ctx, gradient);
    test.linear.backward_weight(ctx, gradient, saved);
    return bytes();
  };
  const auto of_x = static_cast<double>(x.count()),
             of_w = static_cast<double>(test.weight.value.count()),
             of_dy = static_cast<double>(gradient.dy.count());
  EXPECT_EQ(pass(), 8 * of_x + 6 * of_dy + 10 * of_w);
  test.linear.take_codes(test.weights);
  EXPECT_THROW(test.linear.forward(ctx, test.keep, x, saved), Error) << "the codes are not made";
  bytes();
  // Once for each time that weights change.
  test.linear.update_codes(ctx);
  test.linear.update_codes(ctx);
  EXPECT_EQ(bytes(), 6 * of_w);
  EXPECT_EQ(pass(), 8 * of_x + 6 * of_dy);
  test.params.expect_codes();
  test.linear.update_codes(ctx);
  EXPECT_EQ(bytes(), 6 * of_w);
}

}  // namespace
}  // namespace trireme::test
