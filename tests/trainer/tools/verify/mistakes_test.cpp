// Every mistake that a layout can be made to make is found, and laid at the right door; and
// layouts that make none are found equal. Run under mpirun; each program of N ranks tries the
// layouts of N ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <set>

#include "parallel/optimizer/registry.h"
#include "tests/parallel/mpi_world.h"
#include "tests/tiny_model.h"
#include "trainer/tools/verify/verification.h"

namespace trireme::verify {
namespace {

enum class Family { kGpt2, kQwen3, kQwen3Moe };

RunConfig config_of(Family family, const ParallelismConfig& layout, bool tied) {
  RunConfig config;
  static constexpr const char* kNames[] = {"gpt2", "qwen3", "qwen3_moe"};
  config.model = test::tiny_model(kNames[static_cast<int>(family)], {.layers = 4, .positions = 24});
  if (family == Family::kQwen3Moe) {
    config.model.num_experts = 8;
    config.model.mlp_only_layers = {2};
  }
  config.model.tie_word_embeddings = tied;
  config.training.seq_len = 24;
  config.training.local_batch_size = 2;
  config.training.global_batch_size = 8;
  config.data.document_mask = true;
  config.optimizer.lr = 1e-3;
  config.parallelism = layout;
  config.parallelism.bucket_mb = 0.01;
  if (config.parallelism.data_shard == 0) config.parallelism.data_shard = 1;
  return config;
}

Finding verify(const RunConfig& config, Mistake* mistake) {
  RunConfig alone = config;
  alone.parallelism = {.layers_per_stage = {}, .data_shard = 1};
  return Verification(
             tests::world(), {},
             {.subject = config, .reference = alone, .synthetic = true, .mistake = mistake})
      .run(2);
}

struct Case {
  const char* mistake;
  Family family;
  ParallelismConfig layout;
  const char* cause;   // its kind
  const char* tensor;  // in the name of the first that differs; empty: the difference is a number's
  std::int64_t step = 1;
  bool tied = false;
  const char* text = "";  // in the cause's
  // Others than config_of's.
  struct Changes {
    const char* dtype = "float32";
    std::int64_t batch = 8;  // sequences in a step
    double max_norm = 1;
  };
  Changes changes = {};
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.mistake;
}

std::vector<Case> cases() {
  const ParallelismConfig tensor{.tensor = 2, .layers_per_stage = {}};
  const ParallelismConfig sequence{.tensor = 2, .sequence = true, .layers_per_stage = {}};
  const ParallelismConfig pipeline{.pipeline = 2, .layers_per_stage = {}};
  const ParallelismConfig shards{.layers_per_stage = {}, .data_shard = 2};
  const ParallelismConfig shards3{.layers_per_stage = {}, .data_shard = 2, .zero = 3};
  const ParallelismConfig replicas{.layers_per_stage = {}, .data_replicate = 2, .zero = 0};
  const ParallelismConfig experts{
      .layers_per_stage = {}, .expert = 2, .data_replicate = 2, .zero = 0};
  const ParallelismConfig experts_of_shards{.layers_per_stage = {}, .expert = 2, .data_shard = 2};
  const ParallelismConfig expert_replicas{
      .layers_per_stage = {}, .expert = 2, .data_replicate = 4, .zero = 0};
  const ParallelismConfig expert_shards{.layers_per_stage = {}, .expert = 2, .data_shard = 4};
  ParallelismConfig expert_shards2 = expert_shards;
  expert_shards2.zero = 2;
  const ParallelismConfig experts_of_four{
      .tensor = 2, .layers_per_stage = {}, .expert = 2, .data_shard = 2};
  const ParallelismConfig four{.tensor = 4, .layers_per_stage = {}};
  const ParallelismConfig both{.tensor = 2, .layers_per_stage = {}, .data_replicate = 2, .zero = 0};
  const auto context = [](std::int64_t ranks, ContextMethod method, std::int64_t zero) {
    ParallelismConfig layout{.layers_per_stage = {}};
    layout.context = ranks;
    layout.context_method = method;
    layout.zero = zero;
    return layout;
  };
  const auto gathered = context(2, ContextMethod::kAllGather, 1);
  const auto ring = context(2, ContextMethod::kRing, 1);
  const auto ulysses = context(2, ContextMethod::kUlysses, 1);
  const auto context_replicas = context(2, ContextMethod::kRing, 0);
  ParallelismConfig context_of_data = context(2, ContextMethod::kUlysses, 0);
  context_of_data.data_replicate = 2;
  using enum Family;
  return {
      {"lost-norm-sums", kQwen3, sequence, "missing-sum", "layers.0.attention_norm.weight"},
      {"lost-key-value-sums", kQwen3, four, "missing-sum", "layers.0.attention.k.weight"},
      {"lost-tied-sum", kGpt2, pipeline, "missing-sum", "embedding.weight", 1, true},
      {"lost-forward-sum", kQwen3, tensor, "forward", "", 1, false, "layers.1.mlp"},
      {"lost-backward-sum", kQwen3, tensor, "missing-sum", "embedding.weight", 1, false,
       "layers.1.mlp_norm.weight"},
      {"lost-softmax-maximum", kQwen3, tensor, "forward", "", 1, false, "the loss"},
      {"swapped-sequence-parts", kQwen3, sequence, "forward", "", 1, false, "layers.1.attention"},
      {"lost-bucket", kGpt2, replicas, "missing-sum", "layers.1."},
      {"doubled-bucket", kGpt2, replicas, "counted-twice", "layers.1."},
      {"averaged-replicas", kGpt2, replicas, "divided-twice", "embedding.weight"},
      {"averaged-replicas", kQwen3, both, "divided-twice", "embedding.weight"},
      {"lost-scatter", kGpt2, shards, "missing-sum", "layers.1."},
      {"doubled-scatter", kGpt2, shards, "counted-twice", "layers.1."},
      {"lost-scatter", kGpt2, shards3, "missing-sum", "layers.1."},
      {"old-weights", kGpt2, shards3, "late", "", 2},
      {"unpublished-weights", kGpt2, shards, "not-published", "position.weight"},
      {"lost-norm-exchange", kQwen3, pipeline, "missing-sum", ""},
      {"doubled-norm", kQwen3, tensor, "counted-twice", ""},
      {"repeated-activation", kQwen3, pipeline, "forward", ""},
      {"repeated-gradient", kQwen3, pipeline, "backward", "embedding.weight"},
      {"swapped-key-heads", kQwen3, tensor, "swapped-parts", "layers.0.attention.k.weight", 0},
      {"lost-micro-batch", kGpt2, replicas, "lost-micro-batch", "embedding.weight"},
      {"doubled-micro-batch", kGpt2, replicas, "doubled-micro-batch", "embedding.weight"},
      {"same-data", kGpt2, shards, "doubled-micro-batch", "embedding.weight"},
      {"shifted-vocabulary", kQwen3, tensor, "forward", "embedding.weight"},
      {"shifted-targets", kQwen3, tensor, "forward", ""},
      {"tokens-of-one-rank", kGpt2, replicas, "counted-twice", "embedding.weight"},
      {"tokens-of-one-micro-batch", kQwen3, tensor, "counted-twice", "embedding.weight"},
      {"lost-position-gradient", kGpt2, pipeline, "no-gradient", "position.weight"},
      {"summed-bias-gradient", kGpt2, tensor, "counted-twice", "layers.0.attention.o.bias"},
      {"old-step-count", kGpt2, pipeline, "optimizer", "embedding.weight", 2},
      {"bias-on-every-rank", kGpt2, tensor, "forward", "", 1, false, "layers.1.mlp"},
      {"scaled-loss",
       kQwen3,
       pipeline,
       "divided-by-one-more",
       "",
       1,
       false,
       "32 micro-batches",
       {.dtype = "bfloat16", .batch = 64}},
      {"shifted-slice", kQwen3, shards, "samples", "", 1, false, "data rank 1 reads 8"},
      {"shifted-slice", kQwen3, context_of_data, "samples", "", 1, false,
       "on context rank 0, no data rank reads 4; data rank 1 reads 8"},
      {"shifted-slice",
       kQwen3,
       replicas,
       "samples",
       "",
       1,
       false,
       "no data rank reads 4",
       {.dtype = "bfloat16"}},
      {"halved-clip", kGpt2, shards, "clip", "", 1, false, "0.5 times", {.max_norm = 0.01}},
      {"halved-clip",
       kGpt2,
       tensor,
       "clip",
       "",
       1,
       false,
       "0.5 times",
       {.dtype = "bfloat16", .max_norm = 0.01}},
      {"lost-decay", kGpt2, shards, "decay", "embedding.weight", 1, false, "is not applied"},
      {"lost-decay",
       kQwen3,
       shards,
       "decay",
       "embedding.weight",
       1,
       false,
       "is not applied",
       {.dtype = "bfloat16"}},
      {"slow-stage", kGpt2, pipeline, "learning-rate", "layers.2.", 1, false,
       "on pipeline stage 1"},
      {"slow-stage",
       kQwen3,
       pipeline,
       "learning-rate",
       "layers.2.",
       1,
       false,
       "on pipeline stage 1",
       {.dtype = "bfloat16"}},
      {"shifted-expert", kQwen3Moe, experts, "forward", "", 1, false,
       "layers.1.mlp, seen in rows of expert"},
      {"misplaced-expert-rows", kQwen3Moe, experts_of_shards, "forward", "", 1, false,
       "layers.1.mlp"},
      {"misplaced-expert-rows", kQwen3Moe, experts_of_four, "forward", "", 1, false,
       "layers.1.mlp"},
      {"lost-gate-probability", kQwen3Moe, experts, "routing", "", 1, false,
       "layers.1.mlp.router.weight"},
      {"lost-gate-probability", kQwen3Moe, expert_shards, "routing", "", 1, false,
       "layers.1.mlp.router.weight"},
      {"unscaled-router-losses", kQwen3Moe, experts, "router-losses", "", 1, false,
       "counted 2 times"},
      {"unscaled-router-losses", kQwen3Moe, pipeline, "router-losses", "", 1, false,
       "4 times, the rest is correct: this is the number of micro-batches per rank"},
      {"lost-expert-sum", kQwen3Moe, expert_replicas, "missing-sum", "layers.0.mlp.experts.", 1,
       false, "2 replicas of this expert"},
      {"lost-expert-scatter", kQwen3Moe, expert_shards, "missing-sum", "layers.0.mlp.experts.", 1,
       false, "'expert_shard'"},
      {"lost-expert-scatter", kQwen3Moe, expert_shards2, "missing-sum", "layers.0.mlp.experts.", 1,
       false, "'expert_shard'"},
      {"leaked-documents", kQwen3, gathered, "documents", "", 1, false, "layers.0.attention"},
      {"leaked-documents", kGpt2, ring, "documents", "", 1, false, "layers.0.attention"},
      {"leaked-documents", kQwen3, ulysses, "documents", "", 1, false, "layers.0.attention"},
      {"repeated-shard", kQwen3, gathered, "forward", "", 1, false,
       "only in tokens of context rank 1"},
      {"repeated-shard", kGpt2, context(4, ContextMethod::kRing, 3), "forward", "", 1, false,
       "only in tokens of context rank 1"},
      {"lost-context-sum", kQwen3, context_replicas, "missing-sum", "", 1, false, "'context'"},
      {"lost-context-sum", kGpt2, context_of_data, "missing-sum", "", 1, false, "'context'"},
      {"lost-bucket", kGpt2, context_of_data, "missing-sum", "layers.1.", 1, false,
       "'data' and 'context'"},
      {"lost-scatter", kQwen3, ulysses, "missing-sum", "layers.1.", 1, false, "'context'"},
      {"averaged-replicas", kQwen3, context_replicas, "divided-twice", "embedding.weight", 1, false,
       "'context'"},
      {"swapped-context-keys", kQwen3, gathered, "forward", "", 1, false, "layers.1.attention"},
      {"swapped-context-heads", kQwen3, ulysses, "forward", "", 1, false, "layers.1.attention"},
      {"old-context-keys", kQwen3, gathered, "forward", "", 1, false, "layers.1.attention"},
      {"old-context-keys", kQwen3, context(4, ContextMethod::kAllGather, 2), "forward", "", 1,
       false, "layers.1.attention"},
      {"lost-context-key-gradients", kQwen3, gathered, "backward", "", 1, false,
       "layers.1.attention"},
      {"repeated-context-keys", kQwen3, ring, "forward", "", 1, false, "attention"},
      {"stale-tied-table", kGpt2, pipeline, "stale-tied-table", "embedding.weight", 1, true},
  };
}

class Planted : public testing::TestWithParam<Case> {};

TEST_P(Planted, is_found) {
  const Case& c = GetParam();
  if (world_size(c.layout) != tests::world().size()) {
    GTEST_SKIP() << "a layout of " << world_size(c.layout) << " ranks";
  }
  const auto mistake = Mistake::from([&](const char*) { return std::string(c.mistake); });
  RunConfig config = config_of(c.family, c.layout, c.tied);
  config.training.dtype = c.changes.dtype;
  config.training.global_batch_size = c.changes.batch;
  config.training.max_norm = c.changes.max_norm;
  const Finding finding = verify(config, mistake.get());
  ASSERT_TRUE(finding.difference) << text_of(finding);
  SCOPED_TRACE(text_of(finding));
  EXPECT_EQ(finding.difference->step, c.step);
  EXPECT_EQ(finding.difference->cause.kind, c.cause);
  EXPECT_NE(finding.difference->tensor.find(c.tensor), std::string::npos);
  EXPECT_NE(finding.difference->cause.text.find(c.text), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(Mistakes, Planted, testing::ValuesIn(cases()));

TEST(Mistakes, are_all_planted_here) {
  std::set<std::string> planted;
  for (const Case& c : cases()) planted.insert(c.mistake);
  const std::vector<std::string> names = Mistake::names();
  EXPECT_EQ(planted, std::set<std::string>(names.begin(), names.end()));
}

TEST(Mistakes, that_there_are_not_are_refused_with_those_that_there_are) {
  try {
    Mistake::from([](const char*) { return std::string("lost-keys"); });
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_NE(std::string(error.what()).find("lost-norm-sums"), std::string::npos) << error.what();
  }
}

TEST(Mistakes, that_have_no_place_in_a_layout_are_refused) {
  const auto mistake = Mistake::from([](const char*) { return std::string("lost-tied-sum"); });
  const RunConfig config = config_of(
      Family::kGpt2, {.layers_per_stage = {}, .data_shard = tests::world().size()}, false);
  EXPECT_THROW(verify(config, mistake.get()), ConfigError);
}

TEST(Layouts, without_a_mistake_are_equal) {
  const int ranks = tests::world().size();
  const bool two = ranks == 2;
  for (const ParallelismConfig& layout : std::vector<ParallelismConfig>{
           {.tensor = ranks, .sequence = true, .layers_per_stage = {}},
           {.tensor = two ? 1 : 2, .pipeline = 2, .layers_per_stage = {}},
           {.layers_per_stage = {}, .data_replicate = two ? 1 : 2, .data_shard = 2, .zero = 1},
           {.layers_per_stage = {}, .data_shard = ranks, .zero = 3}}) {
    for (const Family family : {Family::kGpt2, Family::kQwen3}) {
      RunConfig config = config_of(family, layout, family == Family::kGpt2);
      const Finding finding = verify(config, nullptr);
      EXPECT_FALSE(finding.difference) << text_of(finding);
      EXPECT_EQ(finding.tolerances.exact, layout.tensor == 1 && data_ranks(layout) == 1);
      if (family != Family::kGpt2) continue;
      for (const char* dtype : {"bfloat16", "float16"}) {
        config.training.dtype = dtype;
        const Finding in_half = verify(config, nullptr);
        EXPECT_FALSE(in_half.difference) << dtype << '\n' << text_of(in_half);
      }
    }
  }
}

TEST(Layouts, with_shared_sequences_are_equal) {
  const int ranks = tests::world().size();
  std::int64_t turn = 0;
  for (const ContextMethod method :
       {ContextMethod::kAllGather, ContextMethod::kRing, ContextMethod::kUlysses}) {
    for (const bool reproducible : {false, true}) {
      if (reproducible && method != ContextMethod::kAllGather) continue;
      for (const std::int64_t context : {2, ranks}) {
        ParallelismConfig layout{.layers_per_stage = {}};
        layout.context = context;
        layout.context_method = method;
        const std::int64_t rest = ranks / context;
        (turn % 3 == 0 || reproducible ? layout.data_shard
         : turn % 3 == 1               ? layout.pipeline
                                       : layout.tensor) = rest;
        layout.zero = turn++ % 4;
        RunConfig config = config_of(turn % 2 ? Family::kQwen3 : Family::kGpt2, layout, turn % 3);
        config.job.reproducible = reproducible;
        const Finding finding = verify(config, nullptr);
        EXPECT_FALSE(finding.difference) << text_of(finding);
        EXPECT_EQ(finding.tolerances.exact, reproducible);
      }
    }
  }
}

// Every ZeRO stage, with as much memory for the experts' rows as even loads need and with more.
TEST(Layouts, with_divided_experts_are_equal) {
  const int ranks = tests::world().size();
  for (const std::int64_t expert : {2, 4}) {
    for (const std::int64_t zero : {0, 1, 2, 3}) {
      for (const bool reproducible : {false, true}) {
        ParallelismConfig layout{.layers_per_stage = {}, .expert = expert, .zero = zero};
        if (ranks / expert == 2 && !reproducible) (zero % 2 ? layout.tensor : layout.pipeline) = 2;
        layout.data_shard = ranks / layout.tensor / layout.pipeline;
        layout.expert_buffer_factor = zero % 2 ? 1 : 4;
        if (layout.data_shard < expert) continue;
        RunConfig config = config_of(Family::kQwen3Moe, layout, zero == 2);
        config.job.reproducible = reproducible;
        const Finding finding = verify(config, nullptr);
        EXPECT_FALSE(finding.difference) << "zero " << zero << '\n' << text_of(finding);
        EXPECT_EQ(finding.tolerances.exact, reproducible);
        const bool has_rounds = std::ranges::none_of(
            finding.not_proven,
            [](const std::string& one) { return one.find("rounds") != std::string::npos; });
        EXPECT_EQ(has_rounds, layout.expert_buffer_factor == 1) << text_of(finding);
      }
    }
  }
}

TEST(Layouts, with_any_optimizer_are_equal) {
  const int ranks = tests::world().size();
  RunConfig config =
      config_of(Family::kQwen3,
                {.tensor = ranks / 2, .layers_per_stage = {}, .data_shard = 2, .zero = 3}, false);
  config.training.dtype = "bfloat16";
  for (const NamedOptimizer& named : named_optimizers()) {
    config.optimizer.name = named.name;
    const Finding finding = verify(config, nullptr);
    EXPECT_FALSE(finding.difference) << named.name << '\n' << text_of(finding);
  }
  config.optimizer.name = "AdamW";
  config.optimizer.state_dtype = "bfloat16";
  config.optimizer.stochastic_rounding = true;
  const Finding finding = verify(config, nullptr);
  EXPECT_FALSE(finding.difference) << text_of(finding);
}

TEST(Layouts, in_float8_are_equal) {
  RunConfig config =
      config_of(Family::kQwen3, {.tensor = tests::world().size(), .layers_per_stage = {}}, false);
  ModelConfig& m = config.model;
  m.vocab_size = 64;
  m.hidden_size = 64;
  m.head_dim = 16;
  m.num_key_value_heads = 4;
  m.intermediate_size = 128;
  m.max_position_embeddings = config.training.seq_len = 32;
  config.training.dtype = "float8";
  for (const bool sequence : {false, true}) {
    config.parallelism.sequence = sequence;
    const Finding finding = verify(config, nullptr);
    EXPECT_FALSE(finding.difference) << text_of(finding);
  }
}

TEST(Layouts, that_did_not_clip_decay_or_add_micro_batches_have_not_proven_it) {
  RunConfig config = config_of(
      Family::kGpt2, {.layers_per_stage = {}, .data_replicate = tests::world().size()}, false);
  config.training.max_norm = 0.01;
  config.training.global_batch_size *= 2;
  EXPECT_TRUE(verify(config, nullptr).not_proven.empty());
  config.training.max_norm = 1e6;
  config.optimizer.weight_decay = 0;
  config.training.global_batch_size = config.training.local_batch_size * tests::world().size();
  const std::string text = text_of(verify(config, nullptr));
  for (const char* key : {"training.max_norm", "optimizer.weight_decay", "global_batch_size"}) {
    EXPECT_NE(text.find(key), std::string::npos) << text;
  }
}

TEST(Layouts, that_promise_the_same_bits_have_them) {
  RunConfig config =
      config_of(Family::kGpt2, {.layers_per_stage = {}, .data_shard = tests::world().size()}, true);
  config.job.reproducible = true;
  const Finding finding = verify(config, nullptr);
  EXPECT_TRUE(finding.tolerances.exact);
  EXPECT_FALSE(finding.difference) << text_of(finding);
}

TEST(Layouts, stand_next_to_float64) {
  const RunConfig config =
      config_of(Family::kQwen3, {.tensor = tests::world().size(), .layers_per_stage = {}}, false);
  RunConfig reference = config;
  reference.parallelism = {.layers_per_stage = {}, .data_shard = 1};
  reference.training.dtype = "float64";
  const Finding finding =
      Verification(tests::world(), {},
                   {.subject = config, .reference = reference, .synthetic = true})
          .run(2);
  EXPECT_FALSE(finding.difference) << text_of(finding);
}

}  // namespace
}  // namespace trireme::verify
