// A search finds what fits and is as fast as any layout a person would write, and says why the
// others are not.
#include "trainer/tools/plan/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

#include "model/device/imagined.h"
#include "trainer/config/for_ranks.h"
#include "trainer/config/reader.h"
#include "trainer/tools/plan/layout_plan.h"
#include "trainer/tools/plan/layouts.h"
#include "trainer/tools/plan/run_plan.h"

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

TEST(Search, the_best_fit_and_none_that_fits_is_faster) {
  const LoadedConfig loaded = config_of();
  const DeviceProfile profile = find_profile("A100-40G");
  const SearchResult found = search_layouts(loaded, 8, profile, imagined_gpu());
  ASSERT_EQ(found.best.size(), 10u);
  const double available = usable_bytes(profile, imagined_gpu(), 8);
  for (std::size_t i = 0; i < found.best.size(); ++i) {
    const RankedLayout& one = found.best[i];
    EXPECT_LE(one.bytes, available);
    EXPECT_EQ(static_cast<double>(plan_layout(one.config, imagined_gpu()).most_device_bytes()),
              one.bytes);
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
  for (const char* words : {"do not fit", "violate a config rule", " 10. ", "recompute"}) {
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
  each_layout(loaded.config, 8, 8, [&](const RunConfig& config) {
    of_data.emplace(data_ranks(config.parallelism), config.parallelism.expert);
  });
  EXPECT_EQ(of_data, (std::set<std::pair<std::int64_t, std::int64_t>>{
                         {1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 2}, {4, 4}, {8, 1}, {8, 2}, {8, 4}}));
  // One head and one layer: only the data ranks remain.
  const DeviceProfile profile = find_profile("A100-40G");
  const SearchResult even = search_layouts(loaded, 8, profile, imagined_gpu());
  const SearchResult uneven = search_layouts(loaded, 8, profile, imagined_gpu(), 3);
  const auto divided = [](const SearchResult& found) {
    return std::count_if(found.best.begin(), found.best.end(),
                         [](const RankedLayout& one) { return one.config.parallelism.expert > 1; });
  };
  EXPECT_EQ(even.considered, uneven.considered);
  EXPECT_GT(divided(even), 0) << search_text(even, 0);
  EXPECT_LT(divided(uneven), divided(even)) << search_text(uneven, 0);
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
