#include "trainer/config/override.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> typed(const CommandLine& line) {
  std::vector<std::string> all;
  for (const Override& override : line.overrides)
    all.push_back(override.key + "=" + override.value);
  return all;
}

CommandLine split(const std::vector<std::string>& words) {
  return split_overrides(words);
}

TEST(overrides, are_told_from_a_commands_own_options_by_their_dot) {
  const CommandLine line = split(
      {"train", "--training.steps=5", "a.toml", "--optimizer.lr", "-1", "--out=b.c", "-n", "3"});
  EXPECT_THAT(line.arguments, ElementsAre("train", "a.toml", "--out=b.c", "-n", "3"));
  EXPECT_THAT(typed(line), ElementsAre("training.steps=5", "optimizer.lr=-1"));
}

TEST(overrides, of_a_switch_need_no_value) {
  const CommandLine line = split({"--job.reproducible", "a.toml", "--metrics.no_enable_tensorboard",
                                  "b", "--data.document_mask", "false"});
  EXPECT_THAT(line.arguments, ElementsAre("a.toml", "b"));
  EXPECT_THAT(typed(line), ElementsAre("job.reproducible=true", "metrics.enable_tensorboard=false",
                                       "data.document_mask=false"));
}

TEST(overrides, may_hold_equals_signs_and_nothing) {
  const CommandLine line = split({"--job.description=a=b", "--data.train=[{path=\"x\"}]",
                                  "--training.steps", "--job.seed=1", "--training.tokens"});
  EXPECT_THAT(typed(line), ElementsAre("job.description=a=b", "data.train=[{path=\"x\"}]",
                                       "training.steps=", "job.seed=1", "training.tokens="));
}

TEST(overrides, end_at_a_lone_double_dash) {
  const CommandLine line = split({"x", "--", "--training.steps=5"});
  EXPECT_THAT(line.arguments, ElementsAre("x", "--", "--training.steps=5"));
  EXPECT_THAT(line.overrides, IsEmpty());
}

}  // namespace
}  // namespace trireme
