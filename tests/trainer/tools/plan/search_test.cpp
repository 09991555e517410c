// A search finds what fits and is as fast as any layout a person would write, and says why the
// others are not.
#include "trainer/tools/plan/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "model/device/imagined.h"
#include "trainer/config/for_ranks.h"
#include "trainer/config/layout_text.h"
#include "trainer/config/reader.h"
#include "trainer/config/rules.h"
#include "trainer/tools/plan/layout_plan.h"
#include "trainer/tools/plan/run_plan.h"
#include "trainer/tools/plan/search/layout_bounds.h"
#include "trainer/tools/plan/search/layouts.h"
#include "trainer/tools/plan/show/search_text.h"

namespace trireme {
namespace {

LoadedConfig config_of(const std::string& more = "") {
  return read_config({"test",
                      "[model]\nflavor = \"llama3-8b\"\n[data]\ntrain = [{ path = \"nowhere\" }]\n"
                      "[training]\nsteps = 10\nseq_len = 4096\nglobal_batch_size = 16\n"
                      "dtype = \"bfloat16\"\n" +
                          more,
                      "/"},
                     {});
}

TEST(Search, layouts_use_every_rank_and_share_only_long_sequences) {
  std::set<std::int64_t> tensor, pipeline;
  std::set<std::pair<std::int64_t, ContextMethod>> context;
  int count = 0;
  each_layout(config_of().config, 16, 8, [&](const RunConfig& config) {
    const ParallelismConfig& layout = config.parallelism;
    ++count;
    tensor.insert(layout.tensor);
    pipeline.insert(layout.pipeline);
    ASSERT_EQ(world_size(layout), 16);
    context.emplace(layout.context, layout.context_method);
    ASSERT_EQ(layout.expert, 1);
  });
  EXPECT_GT(count, 300);
  EXPECT_EQ(tensor, (std::set<std::int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(pipeline, (std::set<std::int64_t>{1, 2, 4, 8, 16}));
  // Shares of the 4,096 tokens have at least 2,048.
  EXPECT_EQ(context,
            (std::set<std::pair<std::int64_t, ContextMethod>>{{1, ContextMethod::kAllGather},
                                                              {2, ContextMethod::kAllGather},
                                                              {2, ContextMethod::kRing},
                                                              {2, ContextMethod::kUlysses}}));
}

// Tensor groups divide the heads, and a node if there are several.
TEST(Search, tensor_groups_do_not_cross_nodes) {
  const auto degrees = [](std::int64_t heads, std::int64_t ranks) {
    RunConfig config = config_of().config;
    config.model.num_attention_heads = heads;
    config.training.global_batch_size = 48;
    std::set<std::int64_t> tensor;
    each_family(config, ranks, 8,
                [&](const RunConfig& family) { tensor.insert(family.parallelism.tensor); });
    return tensor;
  };
  EXPECT_EQ(degrees(24, 48), (std::set<std::int64_t>{1, 2, 4, 8}));
  EXPECT_EQ(degrees(12, 48), (std::set<std::int64_t>{1, 2, 4}));
  EXPECT_EQ(degrees(24, 6), (std::set<std::int64_t>{1, 2, 3, 6}));
}

TEST(Search, families_have_uneven_virtual_stages_and_replicas) {
  RunConfig config = config_of().config;
  config.model.num_hidden_layers = 126;
  config.training.global_batch_size = 2048;
  config.training.local_batch_size = 1;
  config.parallelism.tensor = 8;
  config.parallelism.pipeline = 16;
  config.parallelism.data_shard = 128;
  std::set<std::pair<std::string, std::int64_t>> schedules;
  for (const ScheduleChoice& choice : schedule_choices(config)) {
    schedules.emplace(choice.schedule->name, choice.virtual_stages);
  }
  EXPECT_EQ(schedules, (std::set<std::pair<std::string, std::int64_t>>{{"1F1B", 1},
                                                                       {"ZBH1", 1},
                                                                       {"Interleaved1F1B", 2},
                                                                       {"Interleaved1F1B", 3},
                                                                       {"Interleaved1F1B", 4},
                                                                       {"Interleaved1F1B", 5},
                                                                       {"Interleaved1F1B", 6},
                                                                       {"Interleaved1F1B", 7}}));
  config.parallelism.tensor = 1;
  config.parallelism.pipeline = 1;
  config.parallelism.data_shard = 96;
  const auto shards = [&] {
    std::set<std::int64_t> all;
    for (const std::int64_t replicate : replicate_degrees(config, 6)) all.insert(96 / replicate);
    return all;
  };
  // Powers of two, a node's 6, and all; without shards there is nothing to do for ZeRO-2.
  EXPECT_EQ(shards(), (std::set<std::int64_t>{1, 2, 4, 6, 8, 16, 32, 96}));
  config.parallelism.zero = 2;
  EXPECT_EQ(shards(), (std::set<std::int64_t>{2, 4, 6, 8, 16, 32, 96}));
}

TEST(Search, the_best_fit_and_none_that_fits_is_faster) {
  const LoadedConfig loaded = config_of();
  const DeviceProfile profile = find_profile("A100-40G");
  const SearchResult found = search_layouts(loaded, 8, profile, imagined_gpu());
  ASSERT_EQ(found.best.size(), 10u);
  const double available = usable_bytes(profile, imagined_gpu(), 8);
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    const RankedLayout& one = found.best[i];
    EXPECT_LE(one.bytes, available);
    const LayoutPlan planned = plan_layout(one.config, imagined_gpu());
    EXPECT_EQ(static_cast<double>(planned.most_device_bytes()), one.bytes);
    EXPECT_EQ(planned.places.front().step.layers_per_stage, one.estimate.layers_per_stage);
    EXPECT_GE(one.estimate.seconds, found.best.front().estimate.seconds);
  }
  const RejectedLayouts& rejected = found.rejected;
  EXPECT_EQ(static_cast<std::int64_t>(found.best.size()) + rejected.not_valid + rejected.too_large +
                rejected.bounded + rejected.slower,
            found.considered);
  EXPECT_GT(rejected.too_large, 0);
  // What people write for such a model.
  for (const char* layout : {"tensor = 8\nsequence = true", "tensor = 4\nsequence = true\nzero = 1",
                             "zero = 3", "tensor = 2\nsequence = true\npipeline = 2"}) {
    for (const char* recompute : {"none", "selective", "full"}) {
      const RunConfig config =
          for_ranks(config_of("[parallelism]\n" + std::string(layout) +
                              "\n[activation_checkpoint]\nmode = \"" + recompute + "\""),
                    8)
              .config;
      if (static_cast<double>(plan_layout(config, imagined_gpu()).most_device_bytes()) >
          available) {
        continue;
      }
      EXPECT_GE(estimate_step(workload_of(config), profile).seconds,
                found.best.front().estimate.seconds)
          << layout << ", " << recompute;
    }
  }
  const std::string text = search_text(found, available);
  for (const char* words :
       {"do not fit", "violate a config rule", " 10. ", "recompute", "shapes considered"}) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
}

TEST(Search, experts_are_divided_among_every_number_of_data_ranks_that_divides_them) {
  const LoadedConfig loaded =
      read_config({"test",
                   "[model]\nmodel_type = \"qwen3_moe\"\nvocab_size = 1024\nhidden_size = 2048\n"
                   "intermediate_size = 6144\nnum_hidden_layers = 1\nnum_attention_heads = 1\n"
                   "num_key_value_heads = 1\nhead_dim = 128\nmax_position_embeddings = 4096\n"
                   "num_experts = 12\nnum_experts_per_tok = 2\nmoe_intermediate_size = 8192\n"
                   "[data]\ntrain = [{ path = \"nowhere\" }]\n"
                   "[training]\nsteps = 10\nseq_len = 2048\nglobal_batch_size = 8\n"
                   "dtype = \"bfloat16\"\n",
                   "/"},
                  {});
  std::set<std::pair<std::int64_t, std::int64_t>> of_data;
  RunConfig of_eight_heads = loaded.config;
  of_eight_heads.model.num_attention_heads = 8;
  each_layout(of_eight_heads, 8, 8, [&](const RunConfig& config) {
    of_data.emplace(data_ranks(config.parallelism), config.parallelism.expert);
  });
  EXPECT_EQ(of_data, (std::set<std::pair<std::int64_t, std::int64_t>>{
                         {1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 2}, {4, 4}, {8, 1}, {8, 2}, {8, 4}}));
  // One head and one layer: only the data ranks remain.
  const DeviceProfile profile = find_profile("A100-40G");
  const SearchResult even = search_layouts(loaded, 8, profile, imagined_gpu());
  const SearchResult uneven = search_layouts(loaded, 8, profile, imagined_gpu(), 3);
  const auto by_degree = [](const SearchResult& found) {
    std::map<std::int64_t, double> seconds;
    for (const RankedLayout& one : found.best) {
      seconds[one.config.parallelism.expert] = one.estimate.seconds;
    }
    return seconds;
  };
  EXPECT_EQ(even.considered, uneven.considered);
  std::map<std::int64_t, double> of_even = by_degree(even), of_uneven = by_degree(uneven);
  ASSERT_TRUE(of_even.contains(1) && of_even.contains(4) && of_uneven.contains(4))
      << search_text(even, 0);
  EXPECT_DOUBLE_EQ(of_uneven[1], of_even[1]);
  EXPECT_GT(of_uneven[4], of_even[4]);
}

// A model and ranks so few that every layout can be examined. Pipelines of 2 to 5 ranks have stages
// of different lengths; nodes have 4 ranks.
LoadedConfig small_config(const std::string& model, int layers) {
  return read_config(
      {"test",
       "[model]\nmodel_type = \"" + model +
           "\"\nvocab_size = 32000\nhidden_size = 2048\nintermediate_size = 5632\n"
           "num_hidden_layers = " +
           std::to_string(layers) +
           "\nnum_attention_heads = 12\nnum_key_value_heads = 12\nhead_dim = 128\n"
           "max_position_embeddings = 4096\n" +
           (model == "qwen3_moe" ? "num_experts = 4\nnum_experts_per_tok = 2\n"
                                   "moe_intermediate_size = 2048\n"
                                 : "") +
           "[data]\ntrain = [{ path = \"nowhere\" }]\n[training]\nsteps = 10\nseq_len = 4096\n"
           "global_batch_size = 24\ndtype = \"bfloat16\"\n",
       "/"},
      {});
}

DeviceProfile small_device(double gigabytes) {
  DeviceProfile profile = find_profile("A100-40G");
  profile.network.ranks_per_node = 4;
  profile.memory_bytes = gigabytes * 1e9;
  return profile;
}

bool is_valid(const LoadedConfig& loaded, const RunConfig& config) {
  Complaints complaints;
  check_rules({.config = config, .source = loaded.source, .origins = {}}, complaints,
              Purpose::kPlanning);
  return complaints.empty();
}

void expect_bounds_are_below(const LoadedConfig& loaded, int ranks, const DeviceProfile& profile) {
  LayoutBounds bounds(loaded.config, profile, imagined_gpu(), 1);
  const int node = profile.network.ranks_per_node;
  int count = 0;
  each_family(loaded.config, ranks, node, [&](const RunConfig& family) {
    RunConfig layout = family, less = family;
    less.activation_checkpoint.mode = Recompute::kNone;
    for (const std::int64_t replicate : replicate_degrees(family, node)) {
      for (const ScheduleChoice& choice : schedule_choices(family)) {
        set_member(layout, replicate, choice);
        if (!is_valid(loaded, layout)) continue;
        if (++count % 3 != 0) continue;
        const StepEstimate step = estimate_step(workload_of(layout), profile);
        LayoutBounds::Member member(bounds, layout);
        const double slack = 1 + 1e-9;
        for (const double bound :
             {bounds.seconds_by_flops(family), bounds.seconds_by_layers(family),
              bounds.seconds_by_layers(less), member.seconds(choice),
              member.seconds_by_simulation(choice), member.seconds_without_update(choice)}) {
          ASSERT_LE(bound, step.seconds * slack) << layout_text(layout.parallelism);
        }
        ASSERT_GE(member.seconds_without_update(choice) * 1.1 + step.parts.optimizer, step.seconds)
            << layout_text(layout.parallelism);
        ASSERT_LE(member.seconds(choice), member.seconds_by_simulation(choice) * slack);
        if (count % 39 != 0) continue;
        const auto bytes =
            static_cast<double>(plan_layout(layout, imagined_gpu()).most_device_bytes());
        ASSERT_LE(member.bytes(choice), bytes) << layout_text(layout.parallelism);
        ASSERT_LE(bounds.bytes(family), bytes) << layout_text(layout.parallelism);
        ASSERT_LE(bounds.state_bytes(layout), bytes) << layout_text(layout.parallelism);
      }
    }
  });
  EXPECT_GT(count, 300);
}

TEST(Search, lower_bounds_are_below_what_they_bound) {
  expect_bounds_are_below(small_config("llama", 5), 12, small_device(40));
}

TEST(Search, lower_bounds_hold_for_experts_too) {
  expect_bounds_are_below(small_config("qwen3_moe", 2), 8, small_device(40));
}

// What the search skips is not among the best: they are the ten fastest shapes of an examination of
// every layout, each with its fastest layout.
TEST(Search, finds_the_ten_best_shapes_of_all_layouts) {
  for (const auto& [model, gigabytes] :
       {std::pair("llama", 7.0), std::pair("llama", 40.0), std::pair("qwen3_moe", 40.0)}) {
    const LoadedConfig loaded = small_config(model, 3);
    const DeviceProfile profile = small_device(gigabytes);
    const double available = usable_bytes(profile, imagined_gpu(), 8);
    std::vector<std::pair<double, RunConfig>> all;
    each_layout(loaded.config, 8, 4, [&](const RunConfig& config) {
      if (!is_valid(loaded, config)) return;
      all.emplace_back(estimate_step(workload_of(config), profile).seconds, config);
    });
    std::sort(all.begin(), all.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
    std::map<LayoutShape, double> fastest;
    std::vector<double> best;
    for (const auto& [seconds, config] : all) {
      if (best.size() == 10) break;
      const LayoutShape shape = shape_of(config.parallelism);
      if (fastest.contains(shape)) continue;
      const auto bytes = plan_layout(config, imagined_gpu()).most_device_bytes();
      if (static_cast<double>(bytes) > available) continue;
      fastest.emplace(shape, seconds);
      best.push_back(seconds);
    }
    ASSERT_GT(best.size(), 5u);
    const SearchResult found = search_layouts(loaded, 8, profile, imagined_gpu());
    ASSERT_EQ(found.best.size(), best.size());
    std::set<LayoutShape> shapes;
    for (std::size_t i = 0; i < best.size(); ++i) {
      const RankedLayout& one = found.best[i];
      EXPECT_DOUBLE_EQ(one.estimate.seconds, best[i]) << search_text(found, available);
      shapes.insert(shape_of(one.config.parallelism));
      // Of shapes that are equally fast at the tenth place, either is right.
      if (one.estimate.seconds < best.back()) {
        EXPECT_TRUE(fastest.contains(shape_of(one.config.parallelism)));
      }
    }
    EXPECT_EQ(shapes.size(), best.size());
  }
}

TEST(Search, what_no_layout_satisfies_is_told) {
  LoadedConfig loaded = small_config("llama", 2);
  loaded.config.parallelism.compression.method = CompressionOptions::Method::kBfloat16;
  const auto search = [&](int ranks) {
    return search_layouts(loaded, ranks, small_device(40), imagined_gpu());
  };
  const SearchResult one = search(1);
  EXPECT_TRUE(one.best.empty());
  EXPECT_GT(one.considered, 0);
  EXPECT_EQ(one.rejected.not_valid, one.considered);
  EXPECT_NE(one.rejected.violated.find("data_replicate"), std::string::npos);
  // Two ranks may be replicas.
  const SearchResult two = search(2);
  ASSERT_FALSE(two.best.empty());
  for (const RankedLayout& layout : two.best) {
    EXPECT_EQ(layout.config.parallelism.data_replicate, 2);
  }
  const SearchResult seven = search(7);
  EXPECT_EQ(seven.considered, 0);
  EXPECT_EQ(seven.data_ranks_left, (std::set<std::int64_t>{7}));
}

TEST(Search, numbers_that_a_device_lacks_are_refused) {
  LoadedConfig loaded = small_config("llama", 2);
  loaded.config.training.dtype = "float8";
  EXPECT_THROW(search_layouts(loaded, 2, find_profile("A100-80G"), imagined_gpu()), ConfigError);
}

TEST(Search, a_model_too_large_for_the_ranks_has_no_layout) {
  LoadedConfig loaded = config_of();
  loaded.config.model.num_hidden_layers = 320;
  const DeviceProfile profile = find_profile("A100-40G");
  const SearchResult found = search_layouts(loaded, 2, profile, imagined_gpu());
  EXPECT_TRUE(found.best.empty());
  EXPECT_GT(found.rejected.least_missing, 1e9);
}

}  // namespace
}  // namespace trireme
