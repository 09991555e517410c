#include "model/layers/attention.h"
#include "model/layers/embedding.h"
#include "model/layers/head.h"
#include "model/layers/mlp.h"
#include "model/layers/norm.h"
#include "model/tensor/host_tensor.h"
#include "tests/model/layers/gradient_check.h"

namespace trireme::test {
namespace {

class NormGradient : public testing::TestWithParam<NormKind> {};

TEST_P(NormGradient, holds_with_and_without_a_residual) {
  for (const bool with_residual : {false, true}) {
    LayerBench bench;
    const Region region;
    const Norm norm(bench.params, "norm",
                    {.kind = GetParam(), .width = 12, .gain_offset = with_residual ? 1.0 : 0},
                    region);
    bench.allocate();
    const Tensor x = bench.random({5, 12}, "x");
    const Tensor residual = bench.random({5, 12}, "residual");
    const Tensor of_y = bench.random({5, 12}, "of y");
    const Tensor of_sum = bench.random({5, 12}, "of sum");
    Norm::Saved saved;
    const auto forward = [&] {
      const MeasuredTensor y = with_residual
                                   ? norm.forward_add(bench.ctx, bench.keep, x, residual, saved)
                                   : norm.forward(bench.ctx, bench.keep, x, saved);
      return dot(of_y, y.values) + (with_residual ? dot(of_sum, saved.x) : 0);
    };
    const auto backward = [&] {
      forward();
      const Tensor dx = bench.keep.take({5, 12}, DType::kF64);
      norm.backward(bench.ctx, dx, of_y, with_residual ? of_sum : Tensor{}, saved);
      return with_residual ? std::vector{dx, dx} : std::vector{dx};
    };
    bench.check(with_residual ? std::vector{x, residual} : std::vector{x}, forward, backward);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, NormGradient,
                         testing::Values(NormKind::kLayerNorm, NormKind::kRmsNorm));

struct AttentionCase {
  const char* name;
  bool bias;
  QkNorm qk_norm;
  bool rope;
  std::int64_t window = 0;
};

class AttentionGradient : public testing::TestWithParam<AttentionCase> {};

TEST_P(AttentionGradient, holds_with_grouped_queries_and_documents) {
  const AttentionCase& how = GetParam();
  LayerBench bench;
  Region region;
  AttentionCore core;
  const ops::Heads heads{4, 2, 6};
  // Any angles will do, as long as cosine and sine belong together.
  const Tensor angles = bench.random({7, 3}, "angles");
  const Tensor table = bench.fixed.take({7, 6}, DType::kF64);
  for (std::int64_t p = 0; p < 7; ++p) {
    for (std::int64_t i = 0; i < 3; ++i) {
      table.as<double>()[p * 6 + i] = std::cos(angles.as<double>()[p * 3 + i]);
      table.as<double>()[p * 6 + 3 + i] = std::sin(angles.as<double>()[p * 3 + i]);
    }
  }
  const Tensor none;
  const Attention attention(bench.params, "attention",
                            {.hidden = 10,
                             .heads = heads,
                             .scale = 0.4,
                             .soft_cap = how.window > 0 ? 1.5 : 0,
                             .window = how.window,
                             .rope_interleaved = how.window > 0,
                             .qkv_bias = how.bias,
                             .output_bias = how.bias,
                             .qk_norm = how.qk_norm},
                            region, core, how.rope ? table : none);
  bench.allocate();
  const MicroBatch batch{
      .sequences = 2,
      .seq_len = 7,
      .positions = bench.integers({0, 1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6}),
      .document_start = bench.integers({0, 0, 0, 3, 3, 3, 3, 0, 0, 0, 0, 0, 0, 0}),
      .window_start = bench.integers({0, 0, 1, 3, 3, 4, 5, 0, 0, 1, 2, 3, 4, 5})};
  const Tensor x = bench.random({14, 10}, "x");
  const Tensor r = bench.random({14, 10}, "r");
  Attention::Saved saved;
  const auto forward = [&] {
    return attention.forward(bench.ctx, bench.ctx.scratch, x, batch, Recompute::kNone, saved);
  };
  bench.check(
      {x}, [&] { return dot(r, forward()); },
      [&] {
        forward();
        return std::vector{attention.backward(bench.ctx, r, batch, saved)};
      });
}

INSTANTIATE_TEST_SUITE_P(Families, AttentionGradient,
                         testing::Values(AttentionCase{"gpt2", true, QkNorm::kNone, false},
                                         AttentionCase{"llama", false, QkNorm::kNone, true},
                                         AttentionCase{"qwen3", false, QkNorm::kHead, true},
                                         AttentionCase{"olmo2", false, QkNorm::kProjection, true},
                                         AttentionCase{"window", false, QkNorm::kHead, true, 2}),
                         [](const auto& of) { return std::string(of.param.name); });

class MlpGradient : public testing::TestWithParam<bool> {};

TEST_P(MlpGradient, holds_whatever_is_recomputed) {
  const bool gated = GetParam();
  for (const Recompute recompute : kRecomputeModes) {
    LayerBench bench;
    Region region;
    const Mlp mlp(bench.params, "mlp",
                  {.hidden = 6,
                   .intermediate = 9,
                   .activation = gated ? Activation::kSilu : Activation::kGeluTanh,
                   .gated = gated,
                   .bias = !gated},
                  region);
    bench.allocate();
    const Tensor x = bench.random({5, 6}, "x");
    const Tensor r = bench.random({5, 6}, "r");
    Mlp::Saved saved;
    const auto forward = [&] {
      return mlp.forward(bench.ctx, bench.ctx.scratch, x, recompute, saved);
    };
    bench.check(
        {x}, [&] { return dot(r, forward()); },
        [&] {
          forward();
          if (drops_norms(recompute)) {
            saved.up.x = {};
            if (recompute == Recompute::kSelective) saved.down.x = {};
            mlp.restore_dropped(bench.ctx, x, recompute, saved);
          }
          if (recompute == Recompute::kFull) {
            saved = {};
            mlp.restore(bench.ctx, x, saved);
          }
          return std::vector{mlp.backward(bench.ctx, r, saved)};
        });
  }
}

INSTANTIATE_TEST_SUITE_P(Activations, MlpGradient, testing::Bool());

TEST(Embedding, gradients_add_up_over_repeated_ids_and_positions) {
  LayerBench bench;
  Region region;
  const Embedding embedding(bench.params,
                            {.vocab = 5, .hidden = 4, .positions = 3, .multiplier = 1.5}, region);
  bench.allocate();
  const Tensor ids = bench.integers({4, 0, 4, 1, 2, 3});
  const Tensor positions = bench.integers({0, 1, 2, 0, 1, 2});
  const Tensor r = bench.random({6, 4}, "r");
  const auto forward = [&] {
    return dot(r, embedding.forward(bench.ctx, bench.keep, ids, positions, {}));
  };
  bench.check({}, forward, [&] {
    embedding.backward(bench.ctx, r, ids, positions, {});
    return std::vector<Tensor>{};
  });
}

class HeadGradient : public testing::TestWithParam<ops::LogitForm> {};

TEST_P(HeadGradient, is_that_of_the_mean_loss_of_the_valid_targets) {
  LayerBench bench;
  Region region;
  Weight& table = bench.params.declare(
      {.name = "head.weight", .shape = {11, 6}, .init_scale = 1, .decay = true});
  const Head head(bench.params, {.width = 6}, GetParam(), table, region);
  bench.allocate();
  const Tensor x = bench.random({4, 6}, "x");
  const Tensor targets = bench.integers({3, -1, 10, 0});
  double scale[] = {1.0 / 3};
  Head::Saved saved;
  const auto loss = [&](bool with_gradient) {
    const Tensor losses =
        head.forward(bench.ctx, x, {targets, host_tensor(std::span(scale)), with_gradient}, saved);
    EXPECT_EQ(losses.as<double>()[1], 0);
    double sum = 0;
    for (std::int64_t i = 0; i < losses.count(); ++i) sum += scale[0] * losses.as<double>()[i];
    return sum;
  };
  bench.check(
      {x}, [&] { return loss(false); },
      [&] {
        loss(true);
        const Tensor dx = bench.keep.take(x.shape, DType::kF64);
        head.backward(bench.ctx, dx, saved);
        return std::vector{dx};
      });
}

INSTANTIATE_TEST_SUITE_P(Forms, HeadGradient,
                         testing::Values(ops::LogitForm{}, ops::LogitForm{.scale = 0.4},
                                         ops::LogitForm{.scale = 1.5, .soft_cap = 2},
                                         ops::LogitForm{.soft_cap = 2, .z_loss = 0.3}));

TEST(Head, chunks_of_a_large_vocabulary_are_whole_tiles) {
  constexpr Device kCpu, kGpu{Device::Kind::kCuda, 0};
  EXPECT_EQ(Head::chunk_rows(kCpu, 256, 50257), 256);
  EXPECT_EQ(Head::chunk_rows(kCpu, 8192, 50257), 640);
  EXPECT_EQ(Head::chunk_rows(kCpu, 8192, 1 << 24), 128);
  EXPECT_EQ(Head::chunk_rows(kCpu, 100, 1 << 24), 100);
  // 1.5B and 8B: one pass over the table's gradient for 8192 tokens, not one for every 128 or 256.
  for (const std::int64_t vocab : {151936, 128256, 50304}) {
    EXPECT_EQ(Head::chunk_rows(kGpu, 8192, vocab), 8192);
  }
  // Equal chunks: not one of 8832 rows and one of 1168.
  EXPECT_EQ(Head::chunk_rows(kGpu, 10000, 151936), 5120);
}

}  // namespace
}  // namespace trireme::test
