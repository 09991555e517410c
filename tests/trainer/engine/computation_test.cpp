#include "trainer/engine/computation.h"

#include <gtest/gtest.h>

#include "tests/trainer/config/support.h"

namespace trireme {
namespace {

Computation of(std::vector<Override> overrides, int threads = 1) {
  overrides.push_back({"training.global_batch_size", "4"});
  return computation_of(read(kGood, overrides).config, Device{}, threads);
}

TEST(computation, is_the_same_whatever_the_rest_of_the_config_says) {
  const ComputationChange change = change_of(of({}), of({{"metrics.log_freq", "3"},
                                                         {"optimizer.lr", "1e-3"},
                                                         {"training.steps", "7"},
                                                         {"training.ema", "0.9"},
                                                         {"job.device", "cpu"},
                                                         {"job.threads", "1"}}));
  EXPECT_TRUE(change.same_step && change.same_bits);
  EXPECT_EQ(change.text, "");
}

TEST(computation, with_another_order_of_sums_is_the_same_step_of_other_bits) {
  const ComputationChange change = change_of(of({}), of({{"parallelism.tensor", "2"}}, 4));
  EXPECT_TRUE(change.same_step);
  EXPECT_FALSE(change.same_bits);
  EXPECT_EQ(change.text, "parallelism.tensor: 1 -> 2, threads: 1 -> 4");
}

TEST(computation, that_is_reproducible_has_the_bits_of_any_number_of_data_ranks) {
  const Override reproducible{"job.reproducible", "true"};
  const std::vector<Override> shared{
      reproducible, {"parallelism.data_shard", "2"}, {"parallelism.zero", "3"}};
  EXPECT_TRUE(change_of(of({reproducible}), of(shared)).same_bits);
  EXPECT_FALSE(change_of(of({}), of(shared)).same_bits);
  EXPECT_FALSE(change_of(of({}), of(shared)).same_step);  // it was not reproducible before
  EXPECT_FALSE(
      change_of(of({reproducible}), of({reproducible, {"parallelism.tensor", "2"}})).same_bits);
}

TEST(computation, of_other_numbers_or_data_is_another_step) {
  EXPECT_FALSE(change_of(of({}), of({{"training.dtype", "bfloat16"}})).same_step);
  const ComputationChange change = change_of(of({}), of({{"data.skip", "[[3, 5]]"}}));
  EXPECT_FALSE(change.same_step);
  EXPECT_EQ(change.text, "data.skip: [] -> [[3, 5]]");
}

}  // namespace
}  // namespace trireme
