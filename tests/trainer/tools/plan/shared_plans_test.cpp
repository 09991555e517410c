// Plans have parts in common (WholeModel): each must be that of a thread that has planned nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <random>
#include <set>

#include "model/device/imagined.h"
#include "trainer/config/layout_text.h"
#include "trainer/config/reader.h"
#include "trainer/config/rules.h"
#include "trainer/tools/plan/layout_plan.h"
#include "trainer/tools/plan/search/layouts.h"

namespace trireme {
namespace {

LoadedConfig model_with_experts(bool is_tied) {
  return read_config(
      {"test",
       "[model]\nmodel_type = \"qwen3_moe\"\nvocab_size = 1000\nhidden_size = 256\n"
       "intermediate_size = 512\nnum_hidden_layers = 4\nnum_attention_heads = 8\n"
       "num_key_value_heads = 2\nhead_dim = 32\nmax_position_embeddings = 4096\n"
       "num_experts = 8\nnum_experts_per_tok = 2\nmoe_intermediate_size = 96\n" +
           std::string(is_tied ? "tie_word_embeddings = true\n" : "") +
           "[data]\ntrain = [{ path = \"nowhere\" }]\n[training]\nsteps = 10\nseq_len = 4096\n"
           "global_batch_size = 16\ndtype = \"bfloat16\"\n",
       "/"},
      {});
}

bool can_be_planned(const LoadedConfig& loaded, const RunConfig& layout) {
  Complaints complaints;
  check_rules({.config = layout, .source = loaded.source, .origins = {}}, complaints,
              Purpose::kPlanning);
  return complaints.empty();
}

std::uint64_t seed_of_draw() {
  const char* const told = std::getenv("TRIREME_SEED");
  return told ? std::strtoull(told, nullptr, 10) : 1;
}

TEST(SharedPlans, plans_do_not_depend_on_what_was_planned_before) {
  std::mt19937_64 draw(seed_of_draw());
  int compared = 0;
  for (const bool is_tied : {false, true}) {
    const LoadedConfig loaded = model_with_experts(is_tied);
    std::vector<RunConfig> layouts;
    each_layout(loaded.config, 16, 8, [&](const RunConfig& layout) { layouts.push_back(layout); });
    std::shuffle(layouts.begin(), layouts.end(), draw);
    std::set<std::int64_t> zero, expert, tensor, pipeline;
    for (int left = 60; const RunConfig& layout : layouts) {
      if (!can_be_planned(loaded, layout)) continue;
      if (left-- == 0) break;
      const ParallelismConfig& p = layout.parallelism;
      const auto place = static_cast<int>(draw() % static_cast<std::uint64_t>(p.pipeline));
      const auto plan = [&] { return plan_place(layout, imagined_gpu(), place); };
      const PipelinePlace shared = plan();
      const PipelinePlace alone = std::async(std::launch::async, plan).get();
      ASSERT_EQ(shared.device_bytes, alone.device_bytes) << layout_text(p);
      ASSERT_EQ(device_bytes_of_place(layout, imagined_gpu(), place), alone.device_bytes)
          << layout_text(p);
      ASSERT_EQ(shared.host_bytes, alone.host_bytes) << layout_text(p);
      ASSERT_TRUE(shared.step.memory == alone.step.memory)
          << layout_text(p) << ": " << differences(shared.step.memory, alone.step.memory);
      ASSERT_EQ(shared.step.state_bytes, alone.step.state_bytes) << layout_text(p);
      ASSERT_EQ(shared.step.parameters, alone.step.parameters) << layout_text(p);
      ASSERT_EQ(shared.step.issued.matmul, alone.step.issued.matmul) << layout_text(p);
      zero.insert(p.zero);
      expert.insert(p.expert);
      tensor.insert(p.tensor);
      pipeline.insert(p.pipeline);
      ++compared;
    }
    for (const auto& degrees : {zero, expert, tensor, pipeline}) EXPECT_GT(degrees.size(), 1u);
  }
  EXPECT_EQ(compared, 120);
}

// Its walk leaves out micro-batches that take the memory of others.
TEST(SharedPlans, memory_alone_is_that_of_whole_plans) {
  using Change = void (*)(RunConfig&);
  const std::vector<Change> changes{
      [](RunConfig&) {},
      [](RunConfig& c) { c.training.dtype = "float32"; },
      [](RunConfig& c) { c.job.reproducible = true; },
      [](RunConfig& c) { c.activation_checkpoint.offload = true; },
      [](RunConfig& c) { c.optimizer.offload = true; },
      [](RunConfig& c) { c.training.dropout.residual = c.training.dropout.embedding = 0.1; },
      [](RunConfig& c) { c.data.document_mask = true; },
      [](RunConfig& c) {
        c.training.rampup_batch_size = {{1, 16}, {5, 64}};
      }};
  std::mt19937_64 draw(seed_of_draw());
  int compared = 0;
  for (const Change change : changes) {
    LoadedConfig loaded = model_with_experts(/*is_tied=*/draw() % 2 == 0);
    loaded.config.training.global_batch_size = 64;
    change(loaded.config);
    std::vector<RunConfig> layouts;
    each_layout(loaded.config, 16, 8, [&](const RunConfig& layout) { layouts.push_back(layout); });
    std::shuffle(layouts.begin(), layouts.end(), draw);
    for (int left = 20; const RunConfig& layout : layouts) {
      if (!can_be_planned(loaded, layout)) continue;
      if (left-- == 0) break;
      const ParallelismConfig& p = layout.parallelism;
      const auto place = static_cast<int>(draw() % static_cast<std::uint64_t>(p.pipeline));
      const int rank = place * static_cast<int>(16 / p.pipeline);
      const MemoryPlan whole = plan_of_rank(layout, imagined_gpu(), rank).memory,
                       alone = memory_of_rank(layout, imagined_gpu(), rank);
      ASSERT_TRUE(alone == whole) << layout_text(p) << ": " << differences(whole, alone);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 160);
}

}  // namespace
}  // namespace trireme
