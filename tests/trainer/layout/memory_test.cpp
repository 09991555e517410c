// What a rank's weights, gradients and moments take falls with the ranks that share them,
// for published models, as planned; that a plan holds to the byte, class by class, every run
// asserts after every step (see layout_test.cpp). Run under mpirun.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>

#include "model/tensor/host_tensor.h"
#include "tests/parallel/mpi_world.h"
#include "trainer/config/flavors.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/engine/step_plan.h"

namespace trireme {
namespace {

constexpr const char* kModels[] = {"gpt2-124m", "llama3-8b", "qwen3-0.6b"};

EngineSpec memory_spec(const char* flavor) {
  EngineSpec spec;
  spec.model = *find_flavor(flavor);
  spec.data.document_mask = true;
  spec.training.seq_len = 512;
  spec.micro_batches = 8;
  return spec;
}

double static_bytes(const EngineSpec& spec, const RankGroups& groups) {
  const MemoryPlan plan = plan_engine(spec, groups, {}).memory;
  return static_cast<double>(plan.weights + plan.masters + plan.gradients + plan.optimizer);
}

// Of every rank, in order.
std::vector<double> of_all_ranks(const RankGroups& groups, double own) {
  std::vector<double> all(groups.all->size());
  Stream stream;
  groups.all->all_gather(stream, host_tensor(std::span(all)), host_tensor(std::span(&own, 1)));
  return all;
}

void tell(const RankGroups& groups, const char* flavor, const char* axis, double alone,
          const std::vector<double>& all) {
  if (groups.all->rank() != 0) return;
  constexpr double kGiB = 1 << 30;
  std::string shares;
  for (const double bytes : all) {
    shares += fmt::format(" {:.3f} ({:+.1f} %)", bytes / kGiB,
                          100 * (bytes * static_cast<double>(all.size()) / alone - 1));
  }
  std::printf("%s: alone %.3f GiB; %s = %zu:%s\n", flavor, alone / kGiB, axis, all.size(),
              shares.c_str());
}

TEST(Memory, a_tensor_split_divides_it) {
  if (tests::world().size() > 4) GTEST_SKIP() << "GPT-2's 12 heads";
  ParallelismConfig layout;
  layout.tensor = tests::world().size();
  for (const char* flavor : kModels) {
    SCOPED_TRACE(flavor);
    const EngineSpec spec = memory_spec(flavor);
    const RankGroups groups(tests::world(), layout, spec.model);
    const double alone = static_bytes(spec, RankGroups());
    const std::vector<double> all = of_all_ranks(groups, static_bytes(spec, groups));
    tell(groups, flavor, "tensor", alone, all);
    const double share = alone / static_cast<double>(all.size());
    for (const double bytes : all) EXPECT_NEAR(bytes, share, 0.05 * share);
  }
}

// The first stage also has the embedding, the last the head (or, tied, a copy of the
// embedding; one rank alone keeps the tied table's two gradients apart instead), and the
// balance by computation gives the last fewer blocks for it: what is left of each rank is
// its share of the blocks.
TEST(Memory, a_pipeline_divides_it) {
  if (tests::world().size() > 4) GTEST_SKIP() << "too few layers on a rank";
  ParallelismConfig layout;
  layout.pipeline = tests::world().size();
  for (const char* flavor : kModels) {
    SCOPED_TRACE(flavor);
    const EngineSpec spec = memory_spec(flavor);
    const RankGroups groups(tests::world(), layout, spec.model);
    const double alone = static_bytes(spec, RankGroups());
    const std::vector<double> all = of_all_ranks(groups, static_bytes(spec, groups));
    tell(groups, flavor, "pipeline", alone, all);
    const double elements = static_cast<double>(spec.model.vocab_size * spec.model.hidden_size);
    const double gradient = 4 * elements, table = 16 * elements;  // with values and two moments
    const double copy = spec.model.tie_word_embeddings ? table - gradient : 0;
    EXPECT_NEAR(std::accumulate(all.begin(), all.end(), 0.0), alone + copy, 0.01 * alone);
    EngineSpec deeper = spec;
    deeper.model.num_hidden_layers += 1;
    const double block = static_bytes(deeper, RankGroups()) - alone;
    std::int64_t blocks = 0;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const double tables = (rank == 0 ? table : 0) + (rank + 1 == all.size() ? table : 0);
      const auto own = std::lround((all[rank] - tables) / block);
      EXPECT_GE(own, 1);
      EXPECT_NEAR(all[rank], tables + static_cast<double>(own) * block, 0.05 * all[rank])
          << "rank " << rank;
      blocks += own;
    }
    EXPECT_EQ(blocks, spec.model.num_hidden_layers);
  }
}

// Sequence parallelism shares out all that a layer keeps, also what enters the shared matrices
// (Korthikanti et al. 2022, equation 4).
TEST(Memory, sequence_parallelism_divides_what_layers_keep) {
  EngineSpec spec = memory_spec("llama3-8b");
  spec.compute = DType::kBf16;
  ParallelismConfig& layout = spec.parallelism;
  layout.tensor = tests::world().size();
  const auto kept = [&](const RankGroups& groups) {
    return static_cast<double>(plan_engine(spec, groups, {}).memory.activations());
  };
  const double alone = kept(RankGroups());
  layout.sequence = true;
  const RankGroups groups(tests::world(), layout, spec.model);
  const std::vector<double> all = of_all_ranks(groups, kept(groups));
  tell(groups, "llama3-8b", "tensor with sequence", alone, all);
  const double share = alone / static_cast<double>(all.size());
  for (const double bytes : all) EXPECT_NEAR(bytes, share, 0.02 * share);
}

// Context ranks divide all that layers keep, and what is replicated is as much as alone: weights
// and gradients, of which ZeRO divides the rest.
TEST(Memory, context_ranks_divide_what_layers_keep) {
  for (const ContextMethod method :
       {ContextMethod::kAllGather, ContextMethod::kRing, ContextMethod::kUlysses}) {
    EngineSpec spec = memory_spec("llama3-8b");
    spec.compute = DType::kBf16;
    spec.training.seq_len = 4096;
    spec.parallelism.zero = 0;
    const MemoryPlan alone = plan_engine(spec, RankGroups(), {}).memory;
    ParallelismConfig& layout = spec.parallelism;
    layout.context = tests::world().size();
    layout.context_method = method;
    const RankGroups groups(tests::world(), layout, spec.model);
    const MemoryPlan plan = plan_engine(spec, groups, {}).memory;
    const auto kept = static_cast<double>(plan.activations());
    const std::vector<double> all = of_all_ranks(groups, kept);
    tell(groups, "llama3-8b", "context", static_cast<double>(alone.activations()), all);
    const double share = static_cast<double>(alone.activations()) / static_cast<double>(all.size());
    for (const double bytes : all) EXPECT_NEAR(bytes, share, 0.05 * share);
    EXPECT_EQ(plan.weights, alone.weights);
    EXPECT_EQ(plan.gradients, alone.gradients);
    EXPECT_EQ(plan.optimizer, alone.optimizer);
  }
}

// With full recomputation more tokens take more memory for blocks' inputs and for what attention
// keeps of one block, and none for what lies between the input and the output of an MLP.
TEST(Memory, more_tokens_take_none_within_an_mlp_that_is_recomputed) {
  ParallelismConfig layout;
  layout.tensor = tests::world().size();
  for (const bool sequence : {false, true}) {
    layout.sequence = sequence;
    const auto plan_of = [&](std::int64_t tokens, std::int64_t intermediate) {
      EngineSpec spec = memory_spec("llama3-8b");
      spec.compute = DType::kBf16;
      spec.training.seq_len = tokens;
      spec.model.intermediate_size = intermediate;
      spec.activation_checkpoint.mode = Recompute::kFull;
      spec.parallelism = layout;
      const RankGroups groups(tests::world(), layout, spec.model);
      return plan_engine(spec, groups, {}).memory;
    };
    constexpr std::int64_t kHidden = 4096, kWidth = 14336;
    const std::int64_t few = 4096 * layout.tensor, more = 4 * few;  // chunks
    const MemoryPlan some = plan_of(few, kWidth), some_wide = plan_of(few, 2 * kWidth);
    const MemoryPlan many = plan_of(more, kWidth), many_wide = plan_of(more, 2 * kWidth);
    EXPECT_EQ(some_wide.activations(), some.activations());
    EXPECT_EQ(many_wide.activations(), many.activations());
    EXPECT_NEAR(static_cast<double>(many.activations()),
                4.0 * static_cast<double>(some.activations()),
                0.001 * static_cast<double>(many.activations()));
    const std::size_t grown = many.workspace - some.workspace;
    EXPECT_LE(many_wide.workspace - some_wide.workspace, grown);
    // On one rank all of an MLP's would be 6 x 3.5 more.
    const double inputs =
        static_cast<double>(grown) / static_cast<double>((more - few) * kHidden * 2);
    EXPECT_LT(inputs, 14);
    if (tests::world().rank() == 0) {
      std::printf("llama3-8b, tensor %d%s: %.2f of workspace for each token's hidden state\n",
                  tests::world().size(), sequence ? " with sequence" : "", inputs);
    }
  }
}

// Memory for a micro-batch in flight is that of the stages it is for, not of the rank's largest;
// the steps run in what was planned, also those of fewer micro-batches, which use it for other
// stages.
TEST(Memory, in_flight_is_what_stages_of_several_sizes_need) {
  if (tests::world().size() > 2) GTEST_SKIP() << "two places in the pipeline";
  EngineSpec spec = memory_spec("quickstart");
  spec.model.num_hidden_layers = 6;
  spec.training.seq_len = 32;
  ParallelismConfig& layout = spec.parallelism;
  layout.pipeline = layout.virtual_stages = 2;
  layout.schedule = "Interleaved1F1B";
  layout.layers_per_stage = {1, 1, 3, 1};
  const RankGroups groups(tests::world(), layout, spec.model);
  for (const std::vector<std::int64_t>& fewer : {std::vector<std::int64_t>{}, {2, 4, 6}}) {
    spec.fewer_micro_batches = fewer;
    const MemoryPlan plan = plan_step(spec, groups, {}).memory;
    if (groups.all->rank() == 0) {
      std::size_t most = 0;
      for (const MemoryPlan::Pool& pool : plan.in_flight) most = std::max(most, pool.activations);
      std::printf("%zu slots: %zu bytes, %zu if all had the largest\n", plan.slots(),
                  plan.activations(), plan.slots() * most);
      EXPECT_LT(static_cast<double>(plan.activations()),
                0.75 * static_cast<double>(plan.slots() * most));
    }
    Stream stream;
    Arenas arenas(plan, {});
    Engine engine(spec, groups, stream, arenas);
    engine.model().params().initialize(1);
    engine.model().publish_masters(engine.stream());
    std::vector<std::int64_t> counts = fewer;
    counts.push_back(spec.micro_batches);
    for (const std::int64_t count : counts) {
      engine.take_micro_batches(count);
      const data::TokenBatch batch = engine.batch();
      for (std::size_t i = 0; i < batch.ids.size(); ++i) {
        batch.ids[i] = static_cast<std::int32_t>(i % 61);
        batch.targets[i] = static_cast<std::int32_t>(i % 59);
        batch.positions[i] = static_cast<std::int32_t>(i % 32);
        batch.document_start[i] = 0;
      }
      EXPECT_GT(train_step(engine, 1e-3, 1, static_cast<std::int64_t>(batch.ids.size())).loss, 1);
      EXPECT_EQ(arenas.peaks(), plan) << count << " micro-batches";
    }
  }
}

// Bytes of static memory for each parameter of a model whose tables are not tied: weights in
// bfloat16, gradients in float32, and float32 masters with two moments: 2 + 4 + 12 (Rajbhandari
// et al. 2020 count 2 + 2 + 12, with gradients in the weights' dtype).
TEST(Memory, zero_divides_what_it_says) {
  const int ranks = tests::world().size();
  const double n = ranks;
  const double theory[] = {2 + 4 + 12, 2 + 4 + 12 / n, 2 + (4 + 12) / n, (2 + 4 + 12) / n};
  EngineSpec spec = memory_spec("llama3-8b");
  spec.compute = DType::kBf16;
  spec.bucket = std::int64_t{25} << 18;
  ParallelismConfig& layout = spec.parallelism;
  layout.data_shard = ranks;
  for (int zero = 0; zero <= 3; ++zero) {
    layout.zero = zero;
    const RankGroups groups(tests::world(), layout, spec.model);
    const EnginePlan plan = plan_engine(spec, groups, {});
    const double bytes = static_bytes(spec, groups) / static_cast<double>(plan.parameters);
    if (groups.all->rank() == 0) {
      std::printf("llama3-8b, data_shard = %d, zero = %d: %.3f bytes a parameter, theory %.3f\n",
                  ranks, zero, bytes, theory[zero]);
    }
    EXPECT_NEAR(bytes, theory[zero], 0.02 * theory[zero]) << "zero = " << zero;
    EngineSpec averaging = spec;  // a float more, divided like the moments
    averaging.training.ema = 0.999;
    const double average =
        static_bytes(averaging, groups) / static_cast<double>(plan.parameters) - bytes;
    EXPECT_NEAR(average, zero == 0 ? 4 : 4 / n, 0.02 * 4 / n) << "zero = " << zero;
  }
}

// A login node has no ranks: each of them is planned there to the byte as it plans itself here. The
// first at a place in the pipeline stands for all of them.
TEST(Memory, a_run_that_is_not_there_is_planned_as_one_that_is) {
  const int ranks = tests::world().size(), half = ranks / 2;
  struct Case {
    const char* what;
    const char* dtype;
    std::function<void(ParallelismConfig&)> lay_out;
  };
  const Case cases[] = {
      {"tensor", "bfloat16", [](ParallelismConfig& p) { p.tensor = 2; }},
      {"sequence", "bfloat16",
       [](ParallelismConfig& p) {
         p.tensor = 2;
         p.sequence = true;
         p.zero = 2;
       }},
      {"pipeline", "bfloat16",
       [](ParallelismConfig& p) {
         p.pipeline = 2;
         p.zero = 3;
       }},
      {"key-value heads", "float32", [&](ParallelismConfig& p) { p.tensor = ranks; }},
      {"virtual stages", "bfloat16",
       [](ParallelismConfig& p) {
         p.pipeline = p.virtual_stages = 2;
         p.schedule = "Interleaved1F1B";
       }},
      {"replicas", "float32",
       [&](ParallelismConfig& p) {
         p.data_replicate = half;
         p.zero = 2;
       }},
      {"no sharing", "bfloat16", [](ParallelismConfig& p) { p.zero = 0; }}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    RunConfig config;
    config.model = *find_flavor("quickstart");
    config.model.num_key_value_heads = 2;
    config.model.num_attention_heads = 8;
    config.model.head_dim = 32;
    config.training.seq_len = 64;
    config.training.global_batch_size = 4 * ranks;
    config.training.dtype = c.dtype;
    ParallelismConfig& layout = config.parallelism;
    c.lay_out(layout);
    layout.data_shard = ranks / (layout.tensor * layout.pipeline * layout.data_replicate);
    const EngineSpec spec = engine_spec(config);
    const RankGroups here(tests::world(), layout, config.model);
    Traffic sent, sent_by_first;
    const MeshShape shape = mesh_shape(layout);
    const RankGroups planned(here.all->rank(), shape, spec.parallelism, config.model, {},
                             /*reproducible=*/false, sent);
    const MemoryPlan memory = plan_step(spec, here, {}).memory;
    EXPECT_EQ(plan_step(spec, planned, {}).memory, memory);
    const int place = here.pp_forward->rank();
    const int of_place = ranks / static_cast<int>(layout.pipeline);
    const RankGroups first(place * of_place, shape, spec.parallelism, config.model, {},
                           /*reproducible=*/false, sent_by_first);
    // The last of those that share the state out may own padding, for which there is none.
    const std::size_t most = plan_step(spec, first, {}).memory.total();
    EXPECT_GE(most, memory.total());
    EXPECT_LE(static_cast<double>(most), 1.02 * static_cast<double>(memory.total()));
    // Nor is what a rank sums over the tensor group of the parts it owns the same for all.
    ASSERT_EQ(sent_by_first.size(), sent.size());
    for (const auto& [name, of_first] : sent_by_first) {
      ASSERT_TRUE(sent.contains(name)) << name;
      EXPECT_NEAR(of_first.bytes, sent[name].bytes, 0.01 * of_first.bytes) << name;
    }
  }
}

}  // namespace
}  // namespace trireme
