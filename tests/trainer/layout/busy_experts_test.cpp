// Routers that send every token to the experts of one rank: no token is dropped, memory is as
// planned and the step is that of a rank with all experts, in more rounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "tests/parallel/mpi_world.h"
#include "tests/tiny_model.h"
#include "tests/trainer/layout/trained_alone.h"

namespace trireme {
namespace {

using tests::kMicroBatch, tests::kSeq, tests::kVocab, tests::Reference, tests::Trainer;

constexpr std::int64_t kExperts = 8, kMicroBatches = 8;
constexpr int kBusySteps = 2;

// The experts that all tokens choose.
struct Busy {
  const char* name;
  std::int64_t first, count;
};
constexpr Busy kBusy[] = {{"one expert", 0, 1}, {"the last experts", kExperts - 2, 2}};

// The first column of a token's embedding outweighs the others, and routers read it alone.
void favor(ParamStore& params, const Busy& busy) {
  for (ParamShard& shard : params.shards()) {
    const std::string& name = shard.param->spec.name;
    const bool is_router = name.ends_with("router.weight");
    if (!is_router && name != "embedding.weight") continue;
    const Box& box = shard.param->box;
    auto* const values = shard.master.as<float>();
    for (std::int64_t i = 0; i < shard.count(); ++i) {
      const std::int64_t row = box.from[0] + (shard.first + i) / box.extent[1];
      const bool is_first_column = (shard.first + i) % box.extent[1] == 0;
      if (is_router) {
        values[i] = is_first_column && row >= busy.first && row < busy.first + busy.count ? 5 : 0;
      } else if (is_first_column) {
        values[i] = 10;
      }
    }
  }
}

EngineSpec spec_of(const Busy& busy, const ParallelismConfig& layout, bool reproducible,
                   Recompute recompute) {
  EngineSpec spec;
  spec.model = test::tiny_model("qwen3_moe", {.vocab = kVocab, .layers = 4, .positions = kSeq});
  spec.model.num_experts = kExperts;
  spec.model.num_experts_per_tok = busy.count;
  spec.training.seq_len = kSeq;
  spec.training.local_batch_size = kMicroBatch;
  spec.activation_checkpoint.mode = recompute;
  spec.parallelism = layout;
  spec.job.reproducible = reproducible;
  spec.optimizer.eps = 1e-3;
  spec.micro_batches = kMicroBatches / data_ranks(layout);
  spec.bucket = 5000;
  return spec;
}

std::vector<ParallelismConfig> layouts_of(int ranks) {
  std::vector<ParallelismConfig> layouts;
  const auto add = [&](std::int64_t tensor, std::int64_t pipeline, std::int64_t zero) {
    const std::int64_t data = ranks / tensor / pipeline;
    if (data < 2) return;
    ParallelismConfig layout;
    layout.tensor = tensor;
    layout.sequence = tensor > 1;
    layout.pipeline = pipeline;
    layout.data_shard = layout.expert = data;
    layout.zero = zero;
    layout.expert_buffer_factor = 1;
    layouts.push_back(layout);
  };
  add(1, 1, 0);
  add(1, 1, 3);
  add(1, 2, 1);
  add(2, 1, 2);
  return layouts;
}

// A rank takes the rows of one other rank at once, or of two where each sends it half of its rows.
std::int64_t rounds_of(const Busy& busy, std::int64_t expert_ranks) {
  const std::int64_t own = std::min(kExperts / expert_ranks, busy.count);
  return expert_ranks * own / busy.count;
}

TEST(LayoutOfBusyExperts, drops_no_token_and_takes_the_planned_memory) {
  for (const Busy& busy : kBusy) {
    const auto favor_them = [&](ParamStore& params) { favor(params, busy); };
    const Reference reference =
        tests::trained_alone(spec_of(busy, {}, true, Recompute::kNone), kBusySteps, favor_them);
    Recompute recompute = Recompute::kNone;
    for (const ParallelismConfig& layout : layouts_of(tests::world().size())) {
      SCOPED_TRACE(say(busy.name, ": tensor ", layout.tensor, " pipeline ", layout.pipeline,
                       " zero ", layout.zero, " expert ", layout.expert));
      const bool is_exact = layout.tensor == 1;
      const EngineSpec spec = spec_of(busy, layout, is_exact, recompute);
      const RankGroups groups(tests::world(), layout, spec.model);
      Trainer shared(spec, groups);
      tests::prepare(shared.engine, favor_them);
      for (int step = 1; step <= kBusySteps; ++step) {
        const Reference::Step& expected = reference.steps[step - 1];
        tests::fill(shared.engine, static_cast<std::uint64_t>(step));
        const double loss = compute_gradients(shared.engine, expected.valid);
        const Engine::StepResult result = apply_update(shared.engine, 1e-3, step);
        if (is_exact) {
          EXPECT_EQ(loss, expected.loss);
          EXPECT_EQ(result.grad_norm, expected.norm);
        } else {
          EXPECT_NEAR(loss, expected.loss, 1e-6 * expected.loss);
          EXPECT_NEAR(result.grad_norm, expected.norm, 1e-5 * expected.norm);
        }
        EXPECT_EQ(result.routers->rounds, rounds_of(busy, layout.expert));
        for (const RouterStats::LayerLoad& load : result.routers->loads) {
          const auto first = load.counts.begin() + busy.first;
          EXPECT_EQ(std::accumulate(first, first + busy.count, std::int64_t{0}),
                    kMicroBatches * kMicroBatch * kSeq * busy.count);
        }
        EXPECT_EQ(shared.arenas.peaks(), shared.plan.memory);
      }
      recompute = kRecomputeModes[(static_cast<std::size_t>(recompute) + 1) % 4];
    }
  }
}

}  // namespace
}  // namespace trireme
