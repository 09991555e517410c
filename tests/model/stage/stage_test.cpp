#include <gtest/gtest.h>

#include "model/ops/elementwise.h"
#include "model/ops/routing.h"
#include "model/stage/stage.h"
#include "model/tensor/host_tensor.h"
#include "tests/model/layers/gradient_check.h"
#include "tests/tiny_model.h"

namespace trireme::test {
namespace {

class StageGradient : public testing::TestWithParam<std::tuple<const char*, Recompute>> {};

TEST_P(StageGradient, is_that_of_the_loss_for_every_parameter) {
  const auto [family, recompute] = GetParam();
  LayerBench bench;
  Region region;
  AttentionCore core;
  UnitHooks hooks;
  ModelConfig config = tiny_model(family, kTwoBlocks);
  if (config.n_group > 1) config.num_experts_per_tok = 4;  // so that each expert has a token
  Stage stage(bench.params, config,
              {.first_block = 0,
               .end_block = 2,
               .max_positions = 5,
               .recompute = recompute,
               .dropout = {.attention = 0.2, .residual = 0.2, .embedding = 0.1}},
              {region, core}, hooks);
  stage.allocate({bench.weights, bench.masters, &bench.gradients}, DType::kF64, false);
  for (Weight& weight : bench.params.weights()) {
    for (Param& param : weight.parts) {
      fill_normal(param.value, param.spec.name, 0.3, param.spec.init == Init::kOnes ? 1 : 0);
    }
  }
  double scale[] = {1.0 / 9}, router_scale[] = {1.0 / 10}, router_losses[2 * ops::kRouterSums] = {};
  std::vector<float> counts(2 * std::max<std::int64_t>(config.num_experts, 1));
  const MicroBatch batch{
      .sequences = 2,
      .seq_len = 5,
      .ids = bench.integers({1, 2, 3, 4, 5, 6, 7, 8, 0, 1}),
      .targets = bench.integers({2, -1, 4, 5, 6, 7, 8, 0, 1, 1}),
      .positions = bench.integers({0, 1, 0, 1, 2, 0, 1, 2, 3, 4}),
      .document_start = bench.integers({0, 0, 2, 2, 2, 0, 0, 0, 0, 0}),
      .dropout_words = bench.integers({7, -9, 3, 1, 4, -1, 5, 9, 2, 6}),
      .scale = host_tensor(std::span(scale)),
      .router_scale = host_tensor(std::span(router_scale)),
      .routers = {host_tensor(std::span(router_losses)).reshaped({2, ops::kRouterSums}),
                  host_tensor(std::span(counts)).reshaped({2, std::ssize(counts) / 2})}};
  const std::vector<LayerConfig> layers = layer_configs(config);
  const std::int64_t sparse = layers_with_experts(config);
  const auto total = [&](const Tensor& losses) {
    double sum = 0;
    for (const int layer : {0, 1}) {
      if (!layers[layer].has_experts) continue;
      const double* const of_layer = &router_losses[ops::kRouterSums * layer];
      sum += router_scale[0] / static_cast<double>(sparse) *
             (config.router_aux_loss_coef * of_layer[0] + config.router_z_loss_coef * of_layer[1]);
    }
    for (std::int64_t i = 0; i < losses.count(); ++i) {
      sum += scale[0] * losses.as<double>()[i];
    }
    return sum;
  };
  Stage::Saved saved;
  bench.check(
      {}, [&] { return total(stage.evaluate(bench.ctx, batch, {})); },
      [&] {
        const double trained = total(stage.forward(bench.ctx, batch, {}, saved));
        stage.backward(bench.ctx, {}, saved);
        bench.keep.reset();
        EXPECT_EQ(trained, total(stage.evaluate(bench.ctx, batch, {})));
        return std::vector<Tensor>{};
      });
}

INSTANTIATE_TEST_SUITE_P(Families, StageGradient,
                         testing::Combine(testing::Values("gpt2", "qwen3", "granite", "olmo2",
                                                          "gemma2", "gemma3_text", "glm4", "olmoe",
                                                          "qwen3_moe", "gpt_oss", "glm4_moe"),
                                          testing::ValuesIn(kRecomputeModes)),
                         [](const auto& of) {
                           return say(std::get<0>(of.param), "_",
                                      kRecomputeNames[static_cast<int>(std::get<1>(of.param))]);
                         });

TEST(Stage, two_stages_in_a_row_compute_what_one_does) {
  const ModelConfig config = tiny_model("qwen3", kTwoBlocks);
  const auto loss_of = [&](const std::vector<std::pair<int, int>>& ranges) {
    std::vector<std::unique_ptr<LayerBench>> benches;
    Region region;
    AttentionCore core;
    UnitHooks hooks;
    Tensor passed;
    for (const auto& [first, end] : ranges) {
      LayerBench& bench = *benches.emplace_back(std::make_unique<LayerBench>());
      Stage stage(bench.params, config,
                  {.first_block = first, .end_block = end, .max_positions = 5}, {region, core},
                  hooks);
      stage.allocate({bench.weights, bench.masters, &bench.gradients}, DType::kF64, false);
      bench.params.initialize(3);
      Stage::Saved saved;
      passed = stage.forward(bench.ctx,
                             {.seq_len = 5,
                              .ids = bench.integers({1, 2, 3, 4, 5}),
                              .targets = bench.integers({2, 3, 4, 5, 6}),
                              .positions = bench.integers({0, 1, 2, 3, 4}),
                              .document_start = bench.integers({0, 0, 0, 0, 0})},
                             passed, saved);
    }
    return std::vector<double>(passed.as<double>(), passed.as<double>() + passed.count());
  };
  EXPECT_EQ(loss_of({{0, 2}}), loss_of({{0, 1}, {1, 2}}));
}

}  // namespace
}  // namespace trireme::test
