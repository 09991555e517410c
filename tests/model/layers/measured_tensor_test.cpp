// Layers in float8 that take magnitudes from the ops that wrote their operands, against layers that
// pass over the operands for them.
#include "model/layers/measured_tensor.h"

#include <cstring>
#include <string_view>

#include "model/layers/attention.h"
#include "model/layers/mlp.h"
#include "model/layers/norm.h"
#include "model/ops/activation.h"
#include "model/ops/elementwise.h"
#include "tests/model/layers/gradient_check.h"

namespace trireme::test {
namespace {

constexpr std::int64_t kMeasuredTokens = 48, kMeasuredWidth = 32, kMeasuredInner = 64;
constexpr auto kFloat8 = MatmulPrecision::kFloat8;

using Bytes = std::vector<std::byte>;

Bytes bytes_of(const Tensor& tensor) {
  return {tensor.data, tensor.data + tensor.bytes()};
}

struct Float8Bench {
  Arena weights{1 << 20}, masters{1 << 20}, gradients{1 << 20}, fixed{1 << 20}, keep{4 << 20},
      scratch{4 << 20};
  ParamStore params;
  Stream stream;
  ExecContext ctx{stream, keep, scratch};
  Region region;

  void allocate() {
    params.allocate({weights, masters, &gradients}, DType::kBf16);
    params.initialize(1);
  }
  Tensor random(Shape shape, const char* name, double scale) {
    const Arena::Frame frame(scratch);
    const Tensor wide = scratch.take(shape, DType::kF64), tensor = fixed.take(shape, DType::kBf16);
    fill_normal(wide, name, scale);
    ops::cast(stream, tensor, wide);
    return tensor;
  }
  // What `compute` returns and the gradients that it leaves.
  template <class Body>
  std::vector<Bytes> outcome(const Body& compute) {
    keep.reset();
    scratch.reset();
    params.expect_gradients();
    std::vector<Bytes> all;
    for (const Tensor& tensor : compute()) all.push_back(bytes_of(tensor));
    for (const Weight& weight : params.weights()) {
      if (weight.grad) all.push_back(bytes_of(weight.grad));
    }
    return all;
  }
};

// down(act(up(x))) of two linear layers and of an activation that collects nothing.
std::vector<Tensor> unmeasured_mlp(Float8Bench& on, const MlpSpec& spec, const Linear& up,
                                   const Linear& down, Tensor x, Tensor dy) {
  ExecContext& ctx = on.ctx;
  Linear::Saved of_x, of_act;
  const Tensor pre = up.forward(ctx, on.keep, x, of_x);
  const Tensor act = on.keep.take({kMeasuredTokens, kMeasuredInner}, DType::kBf16);
  if (spec.gated) {
    ops::gate(on.stream, act, pre, spec.activation);
  } else {
    ops::activate(on.stream, act, pre, spec.activation);
  }
  const Tensor y = down.forward(ctx, on.keep, act, of_act);
  Linear::Gradient of_down(dy);
  const Tensor dact = down.backward_input(ctx, of_down);
  down.backward_weight(ctx, of_down, of_act);
  const Tensor dpre = on.keep.take(pre.shape, pre.dtype);
  if (spec.gated) {
    ops::gate_backward(on.stream, dpre, dact, pre, spec.activation);
  } else {
    ops::activate_backward(on.stream, dpre, dact, pre, spec.activation);
  }
  Linear::Gradient of_up(dpre);
  const Tensor dx = up.backward_input(ctx, of_up);
  up.backward_weight(ctx, of_up, of_x);
  return {y, dx};
}

TEST(MeasuredTensor, mlp_has_the_bits_of_one_that_measures_its_operands) {
  for (const bool gated : {true, false}) {
    for (const bool bias : {true, false}) {
      SCOPED_TRACE(say(gated ? "gated" : "not gated", bias ? ", biases" : ""));
      Float8Bench on;
      const MlpSpec spec{.hidden = kMeasuredWidth,
                         .intermediate = kMeasuredInner,
                         .activation = gated ? Activation::kSilu : Activation::kGeluTanh,
                         .gated = gated,
                         .bias = bias,
                         .init_scale = 0.3,
                         .down_init_scale = 0.3,
                         .precision = kFloat8};
      const Norm norm(on.params, "norm", {.width = kMeasuredWidth}, on.region);
      const Mlp mlp(on.params, "mlp", spec, on.region);
      on.allocate();
      std::vector<Weight*> matrices;
      std::vector<Weight*> biases;
      for (Weight& weight : on.params.weights()) {
        const std::string& name = weight.parts.front().spec.name;
        if (name.find("norm") != std::string::npos) continue;
        (name.find("bias") != std::string::npos ? biases : matrices).push_back(&weight);
      }
      ASSERT_EQ(matrices.size(), 2U);
      const Linear up(*matrices[0], bias ? biases[0] : nullptr, kFloat8);
      const Linear down(*matrices[1], bias ? biases[1] : nullptr, kFloat8);
      const Tensor x = on.random({kMeasuredTokens, kMeasuredWidth}, "x", 3);
      const Tensor dy = on.random({kMeasuredTokens, kMeasuredWidth}, "dy", 1e-4);
      const auto normalized = [&](bool measures) {
        Norm::Saved unused;
        return norm.forward(on.ctx, on.keep, x, unused, measures);
      };
      const std::vector<Bytes> expected = on.outcome(
          [&] { return unmeasured_mlp(on, spec, up, down, normalized(false).values, dy); });
      for (const Recompute recompute : kRecomputeModes) {
        SCOPED_TRACE(kRecomputeNames[static_cast<std::size_t>(recompute)]);
        for (const bool measures : {true, false}) {
          EXPECT_TRUE(expected == on.outcome([&] {
            const MeasuredTensor h = normalized(measures);
            EXPECT_EQ(static_cast<bool>(h.magnitudes), measures);
            Mlp::Saved saved;
            const Tensor y = mlp.forward(on.ctx, on.keep, h, recompute, saved);
            if (recompute == Recompute::kFull) {
              mlp.restore(on.ctx, h, saved);
            } else if (drops_norms(recompute)) {
              mlp.restore_dropped(on.ctx, h.values, recompute, saved);
            }
            return std::vector{y, mlp.backward(on.ctx, dy, saved)};
          }));
        }
      }
    }
  }
}

TEST(MeasuredTensor, attention_has_the_bits_of_one_that_measures_its_input) {
  Float8Bench on;
  AttentionCore core;
  const Tensor no_table;
  const Norm norm(on.params, "norm", {.kind = NormKind::kLayerNorm, .width = kMeasuredWidth},
                  on.region);
  const Attention attention(on.params, "attention",
                            {.hidden = kMeasuredWidth,
                             .heads = {4, 2, 16},
                             .scale = 0.25,
                             .init_scale = 0.3,
                             .output_init_scale = 0.3,
                             .precision = kFloat8},
                            on.region, core, no_table);
  on.allocate();
  const MicroBatch batch{.sequences = 2,
                         .seq_len = kMeasuredTokens / 2,
                         .document_start = on.fixed.take({kMeasuredTokens}, DType::kI32)};
  const Tensor x = on.random({kMeasuredTokens, kMeasuredWidth}, "x", 3);
  const Tensor dy = on.random({kMeasuredTokens, kMeasuredWidth}, "dy", 1e-4);
  const auto computed = [&](bool measures) {
    return on.outcome([&] {
      Norm::Saved unused;
      const MeasuredTensor h = norm.forward(on.ctx, on.keep, x, unused, measures);
      EXPECT_EQ(static_cast<bool>(h.magnitudes), measures);
      Attention::Saved saved;
      const Tensor y = attention.forward(on.ctx, on.keep, h, batch, Recompute::kNone, saved);
      return std::vector{y, attention.backward(on.ctx, dy, batch, saved)};
    });
  };
  EXPECT_TRUE(computed(true) == computed(false));
}

// Inside a region with sequence parallelism there are other ranks' rows.
TEST(MeasuredTensor, of_a_region_that_splits_tokens_is_nothing_inside) {
  struct Splitting : Region {
    bool splits_tokens() const override { return true; }
  } splitting;
  Float8Bench on;
  const Tensor x = on.fixed.take({kMeasuredTokens, kMeasuredWidth}, DType::kBf16);
  const Tensor magnitudes = on.fixed.take({ops::kMagnitudes}, DType::kI32);
  EXPECT_FALSE(enter(on.ctx, splitting, on.keep, {x, magnitudes}).magnitudes);
  EXPECT_TRUE(enter(on.ctx, on.region, on.keep, {x, magnitudes}).magnitudes);
}

}  // namespace
}  // namespace trireme::test
