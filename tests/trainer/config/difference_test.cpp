#include "trainer/config/difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/config/support.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> changes(const std::vector<Override>& before,
                                 const std::vector<Override>& after) {
  std::vector<std::string> all;
  for (const Change& change : difference(read(kGood, before).config, read(kGood, after).config)) {
    all.push_back(change.key + ": " + change.before + " -> " + change.after + ": " +
                  effect_text(change.effect));
  }
  return all;
}

TEST(difference, of_equal_configs_is_nothing) {
  EXPECT_THAT(changes({}, {}), IsEmpty());
}

TEST(difference, says_what_a_change_means_for_a_run_that_goes_on) {
  EXPECT_THAT(changes({}, {{"optimizer.lr", "1e-3"}}),
              ElementsAre("optimizer.lr: 0.0003 -> 0.001: changes numerics"));
  EXPECT_THAT(changes({}, {{"job.seed", "4"}}), ElementsAre("job.seed: 0 -> 4: changes data"));
  EXPECT_THAT(changes({}, {{"activation_checkpoint.mode", "full"}}),
              ElementsAre("activation_checkpoint.mode: \"none\" -> \"full\": performance only"));
  EXPECT_THAT(changes({}, {{"metrics.log_freq", "1"}}),
              ElementsAre("metrics.log_freq: 10 -> 1: bookkeeping"));
  EXPECT_THAT(changes({}, {{"model.num_hidden_layers", "3"}, {"job.dump_folder", "/r"}}),
              ElementsAre("job.dump_folder: \"/home/me/outputs\" -> \"/r\": bookkeeping",
                          "model.num_hidden_layers: 2 -> 3: changes numerics"));
}

TEST(difference, in_length_is_one_in_data_to_an_order_that_depends_on_it) {
  const Override megatron{"data.order", "megatron"}, longer{"training.steps", "200"};
  EXPECT_THAT(changes({megatron}, {megatron, longer}),
              ElementsAre("training.steps: 100 -> 200: changes data"));
  const Override fixed{"data.order_samples", "150"};
  EXPECT_THAT(changes({megatron, fixed}, {megatron, fixed, longer}),
              ElementsAre("training.steps: 100 -> 200: changes numerics"));
}

TEST(difference, of_the_layout_is_layout_only) {
  RunConfig before = read(kGood).config;
  RunConfig after = before;
  after.parallelism.tensor = 2;
  const std::vector<Change> all = difference(before, after);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all.front().effect, Effect::kLayout);
}

TEST(difference, in_length_matters_only_to_a_curve_that_is_stretched) {
  EXPECT_THAT(changes({}, {{"training.steps", "200"}}),
              ElementsAre("training.steps: 100 -> 200: changes numerics"));
  const Override constant{"lr_scheduler.name", "constant"};
  EXPECT_THAT(changes({constant}, {constant, {"training.steps", "200"}}),
              ElementsAre("training.steps: 100 -> 200: bookkeeping"));
  EXPECT_THAT(changes({}, {{"training.steps", "0"}, {"training.tokens", "102400"}}),
              ElementsAre("training.steps: 100 -> 0: bookkeeping",
                          "training.tokens: 0 -> 102400: bookkeeping"));
}

}  // namespace
}  // namespace trireme
