// training.ema: the average of the weights that an engine keeps.
#include <gtest/gtest.h>

#include <vector>

#include "tests/trainer/engine/tiny_engine.h"

namespace trireme {
namespace {

using AverageTest = test::OnDevice;

struct Averages {
  std::vector<std::vector<float>> masters, averages;  // by shard
};

Averages averages_of(test::TinyEngine& on) {
  const HostState& host = on.engine.host_state();
  host.download(on.stream);
  const auto& states = on.engine.model().optimizer().states();
  EXPECT_EQ(states.back().name, "ema");
  const auto values = [](const Tensor& tensor) {
    return std::vector<float>(tensor.as<float>(), tensor.as<float>() + tensor.count());
  };
  Averages found;
  for (const ParamShard& shard : on.engine.model().params().shards()) {
    found.masters.push_back(values(host.masters().host(shard.master)));
    found.averages.push_back(values(host.state(states.size() - 1).host(shard.average)));
  }
  return found;
}

EngineSpec average_spec(const char* family, DType compute, const char* rule) {
  EngineSpec spec = test::spec_of(family);
  spec.compute = compute;
  spec.micro_batches = 1;
  spec.optimizer.name = rule;
  spec.training.ema = 0.75;  // products with 0.25 are exact: fused or not, the same bits
  return spec;
}

Engine::StepResult averaged_step(test::TinyEngine& on, std::int64_t step,
                                 double norm_limit = Engine::kNoLimit) {
  test::fill(on.engine.batch(), static_cast<std::uint64_t>(step),
             on.engine.spec().model.vocab_size);
  on.engine.queue_gradients(40, step);
  on.engine.queue_update(1e-2, step, norm_limit);
  return on.engine.result();
}

TEST_F(AverageTest, starts_as_the_weights_and_follows_them) {
  for (const char* rule : {"AdamW", "Muon"}) {
    for (const DType compute : {DType::kF32, DType::kBf16}) {
      SCOPED_TRACE(say(rule, " in ", name_of(compute)));
      test::TinyEngine on(average_spec(compute == DType::kF32 ? "gpt2" : "qwen3", compute, rule));
      Averages before = averages_of(on);
      EXPECT_EQ(before.averages, before.masters);
      for (std::int64_t step = 1; step <= 2; ++step) {
        averaged_step(on, step);
        EXPECT_EQ(on.arenas.peaks(), on.plan.memory);
        const Averages after = averages_of(on);
        for (std::size_t s = 0; s < before.averages.size(); ++s) {
          for (std::size_t i = 0; i < before.averages[s].size(); ++i) {
            const float towards = after.masters[s][i] - before.averages[s][i];
            before.averages[s][i] += 0.25f * towards;
          }
        }
        EXPECT_EQ(after.averages, before.averages) << "step " << step;
        EXPECT_NE(after.averages, after.masters);
      }
    }
  }
}

TEST_F(AverageTest, a_step_that_is_not_applied_leaves_it) {
  test::TinyEngine on(average_spec("qwen3", DType::kF32, "AdamW"));
  averaged_step(on, 1);
  const Averages before = averages_of(on);
  EXPECT_FALSE(averaged_step(on, 2, /*norm_limit=*/0).applied);
  const Averages after = averages_of(on);
  EXPECT_EQ(after.averages, before.averages);
  EXPECT_EQ(after.masters, before.masters);
}

TEST_F(AverageTest, changes_nothing_else_and_takes_a_float_of_each_parameter) {
  EngineSpec spec = average_spec("gpt2", DType::kBf16, "AdamW");
  test::TinyEngine with(spec);
  spec.training.ema = 0;
  test::TinyEngine without(spec);
  for (std::int64_t step = 1; step <= 2; ++step) {
    EXPECT_EQ(averaged_step(with, step).loss, averaged_step(without, step).loss);
  }
  EXPECT_EQ(with.weights(), without.weights());
  EXPECT_EQ(with.engine.model().checkpoint_bytes() - without.engine.model().checkpoint_bytes(),
            4 * static_cast<std::size_t>(with.plan.parameters));
  // Two moments and the average.
  EXPECT_EQ(with.plan.memory.optimizer, without.plan.memory.optimizer / 2 * 3);
  EXPECT_EQ(with.plan.memory.total() - without.plan.memory.total(),
            without.plan.memory.optimizer / 2);
}

}  // namespace
}  // namespace trireme
