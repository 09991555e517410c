// The bias of a router's choice: moved once a step by the step's counts, kept in float32.
#include <cmath>
#include <numeric>
#include <vector>

#include "model/ops/elementwise.h"
#include "tests/trainer/engine/tiny_engine.h"

namespace trireme::test {
namespace {

constexpr float kRate = 0.001f;

using RouterBias = OnDevice;

EngineSpec biased_spec(DType compute) {
  EngineSpec spec = spec_of("glm4_moe");
  spec.compute = compute;
  spec.training.ema = 0.5;
  return spec;
}

std::vector<float> floats_of(Stream& stream, const Tensor& tensor) {
  const HostMirror mirror(stream, tensor);
  mirror.download(stream);
  stream.synchronize();
  const auto* const values = mirror.host().as<float>();
  return {values, values + tensor.count()};
}

// Of each sparse layer: what its router reads, or the masters.
std::vector<std::vector<float>> biases(TinyEngine& tiny, bool masters) {
  std::vector<std::vector<float>> all;
  for (const Weight& weight : tiny.engine.model().params().weights()) {
    if (!weight.buffer) continue;
    const Param& bias = weight.parts.front();
    EXPECT_TRUE(bias.spec.name.ends_with(".mlp.router.correction_bias"));
    all.push_back(floats_of(tiny.stream, masters ? bias.master : weight.buffer));
  }
  return all;
}

Engine::StepResult step(TinyEngine& tiny, std::int64_t update, double limit = Engine::kNoLimit) {
  fill(tiny.engine.batch(), static_cast<std::uint64_t>(update), 61);
  tiny.engine.queue_gradients(kMicroBatches * 40, update);
  tiny.engine.queue_update(1e-3, update, limit);
  return tiny.engine.result();
}

TEST_F(RouterBias, follows_the_counts_of_each_step_and_of_no_skipped_one) {
  for (const DType compute : {DType::kF32, DType::kBf16}) {
    TinyEngine tiny(biased_spec(compute));
    constexpr std::size_t layers = 2;
    std::vector<std::vector<float>> expected(layers, std::vector<float>(6, 0.0f));
    EXPECT_EQ(biases(tiny, false), expected);
    bool moved = false;
    for (std::int64_t update = 1; update <= 3; ++update) {
      const bool skips = update == 2;
      const Engine::StepResult result = step(tiny, update, skips ? 1e-9 : Engine::kNoLimit);
      EXPECT_EQ(result.applied, !skips);
      ASSERT_EQ(result.routers->loads.size(), layers);
      for (std::size_t layer = 0; layer < layers && !skips; ++layer) {
        const auto& counts = result.routers->loads[layer].counts;
        const std::int64_t sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
        EXPECT_EQ(sum, kMicroBatches * 40 * 2);
        for (std::size_t e = 0; e < counts.size(); ++e) {
          const std::int64_t below = sum - 6 * counts[e];
          if (below > 0) expected[layer][e] += kRate;
          if (below < 0) expected[layer][e] -= kRate;
          moved |= below != 0;
        }
      }
      EXPECT_EQ(biases(tiny, false), expected) << "update " << update;
      EXPECT_EQ(biases(tiny, true), expected) << "update " << update;
    }
    EXPECT_TRUE(moved);
    // As after a checkpoint is loaded.
    for (Weight& weight : tiny.engine.model().params().weights()) {
      if (weight.buffer) ops::scale(tiny.stream, weight.buffer, weight.buffer, 7);
    }
    tiny.engine.model().publish_masters(tiny.stream, 3);
    EXPECT_EQ(biases(tiny, false), expected);
  }
}

TEST_F(RouterBias, has_an_average_but_no_moments_and_no_gradient) {
  TinyEngine tiny(biased_spec(DType::kF32));
  step(tiny, 1);
  int averages = 0;
  for (const ShardedOptimizer::State& state : tiny.engine.model().optimizer().states()) {
    for (const ParamShard* shard : state.shards) {
      if (!shard->param->spec.is_buffer) continue;
      EXPECT_EQ(state.name, ShardedOptimizer::kAverageName);
      ++averages;
    }
  }
  EXPECT_EQ(averages, 2);
  for (const Weight& weight : tiny.engine.model().params().weights()) {
    if (!weight.buffer) continue;
    EXPECT_EQ(floats_of(tiny.stream, weight.parts.front().grad), std::vector<float>(6, 0.0f));
  }
}

TEST_F(RouterBias, stays_with_a_rate_of_zero_and_changes_the_choice) {
  EngineSpec spec = biased_spec(DType::kF32);
  spec.model.router_bias_update_rate = 0;
  TinyEngine still(spec), shifted(spec);
  for (Weight& weight : shifted.engine.model().params().weights()) {
    if (!weight.buffer) continue;
    const std::vector<float> favored{0, 0, 0, 0, 5, 5};
    const HostMirror mirror(shifted.stream, weight.parts.front().master);
    std::copy(favored.begin(), favored.end(), mirror.host().as<float>());
    mirror.upload(shifted.stream);
  }
  shifted.engine.model().publish_masters(shifted.stream);
  const auto of = step(still, 1).routers->loads.front().counts;
  const auto other = step(shifted, 1).routers->loads.front().counts;
  EXPECT_EQ(biases(still, false).front(), std::vector<float>(6, 0.0f));
  EXPECT_EQ(biases(shifted, true).front().back(), 5);
  EXPECT_LT(of[4], kMicroBatches * 40);
  EXPECT_EQ(other, (std::vector<std::int64_t>{0, 0, 0, 0, kMicroBatches * 40, kMicroBatches * 40}));
}

}  // namespace
}  // namespace trireme::test
