#include "trainer/supervise/launch/world_fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/base/error.h"
#include "tests/trainer/config/support.h"

namespace trireme {
namespace {

std::string text(const std::optional<WorldFit>& fit) {
  if (!fit) return "nothing";
  std::string words = std::to_string(fit->ranks);
  for (const auto& [key, value] : fit->overrides) {
    words += say(" ", key.substr(key.find('.') + 1), "=", value);
  }
  return words;
}

std::string fit(const std::string& more, int wanted, int available, std::int64_t least = 1) {
  return text(fit_world(read(kGood + more), wanted, available, least));
}

const std::string kBatch8 = "local_batch_size = 1\nglobal_batch_size = 8\n";

TEST(world_fit, a_world_that_fits_is_left_as_it_is) {
  EXPECT_EQ(fit(kBatch8, 4, 4), "4");
  EXPECT_EQ(fit(kBatch8, 4, 9), "4");
}

TEST(world_fit, a_derived_batch_stays_what_the_whole_world_has) {
  EXPECT_EQ(fit("local_batch_size = 2\n", 4, 4), "4 global_batch_size=8");
  EXPECT_EQ(fit("local_batch_size = 2\n", 4, 2),
            "2 global_batch_size=8 data_replicate=1 data_shard=2");
}

TEST(world_fit, data_ranks_shrink_to_what_divides_the_batch) {
  EXPECT_EQ(fit(kBatch8, 4, 3), "2 data_replicate=1 data_shard=2");
  EXPECT_EQ(fit(kBatch8, 4, 1), "1 data_replicate=1 data_shard=1");
  EXPECT_EQ(fit("local_batch_size = 1\nglobal_batch_size = 12\n", 4, 3),
            "3 data_replicate=1 data_shard=3");
}

TEST(world_fit, tensor_and_pipeline_stay) {
  const std::string both = kBatch8 + "[parallelism]\ntensor = 2\npipeline = 2\n";
  EXPECT_EQ(fit(both, 16, 15), "8 data_replicate=1 data_shard=2");
  EXPECT_EQ(fit(both, 16, 7), "4 data_replicate=1 data_shard=1");
  EXPECT_EQ(fit(both, 16, 3), "nothing");
}

TEST(world_fit, replicas_are_kept_where_they_can) {
  const std::string hybrid = kBatch8 + "[parallelism]\ndata_replicate = 2\n";
  EXPECT_EQ(fit(hybrid, 8, 7), "4 data_replicate=2 data_shard=2");
  const std::string replicas =
      kBatch8 + "[parallelism]\nzero = 0\ndata_replicate = 4\ndata_shard = 1\n";
  EXPECT_EQ(fit(replicas, 4, 3), "2 data_replicate=2 data_shard=1");
}

TEST(world_fit, fewer_data_ranks_divide_the_experts) {
  const std::string sparse =
      "[model]\nmodel_type = \"qwen3_moe\"\nhidden_size = 64\nintermediate_size = 96\n"
      "num_hidden_layers = 2\nnum_attention_heads = 4\nvocab_size = 300\nnum_experts = 8\n"
      "num_experts_per_tok = 2\nmoe_intermediate_size = 36\n"
      "[data]\ntrain = [{ path = \"text\" }]\n"
      "[training]\nsteps = 100\nlocal_batch_size = 1\nglobal_batch_size = 8\n"
      "[parallelism]\nexpert = ";
  const auto fit_experts = [&](const char* expert, int wanted, int available) {
    return text(fit_world(read(sparse + expert), wanted, available, 1));
  };
  EXPECT_EQ(fit_experts("2", 8, 7), "4 data_replicate=1 data_shard=4");
  EXPECT_EQ(fit_experts("4", 8, 7), "4 data_replicate=1 data_shard=4");
  EXPECT_EQ(fit_experts("8", 8, 7), "4 data_replicate=1 data_shard=4 expert=4");
  EXPECT_EQ(fit_experts("4", 4, 1), "1 data_replicate=1 data_shard=1 expert=1");
}

TEST(world_fit, fewer_than_the_least_data_ranks_is_nothing) {
  EXPECT_EQ(fit(kBatch8, 8, 3, 2), "2 data_replicate=1 data_shard=2");
  EXPECT_EQ(fit(kBatch8, 8, 1, 2), "nothing");
  EXPECT_EQ(fit(kBatch8, 8, 0), "nothing");
}

TEST(world_fit, a_layout_that_is_closed_wants_its_own_number) {
  const std::string closed = kBatch8 + "[parallelism]\ndata_shard = 4\n";
  EXPECT_EQ(fit(closed, 4, 2), "2 data_replicate=1 data_shard=2");
  EXPECT_THROW(fit(closed, 6, 6), ConfigError);
}

TEST(world_fit, the_batch_of_a_reproducible_run_wants_powers_of_two) {
  const std::string exact =
      "local_batch_size = 1\nglobal_batch_size = 12\n[job]\nreproducible = true\n";
  EXPECT_EQ(fit(exact, 3, 2), "1 data_replicate=1 data_shard=1");
}

}  // namespace
}  // namespace trireme
