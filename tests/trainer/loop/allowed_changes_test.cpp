#include "trainer/loop/allowed_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/config/support.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

NumericChanges changes(const std::vector<Override>& before, std::vector<Override> after,
                       std::int64_t step) {
  after.insert(after.begin(), before.begin(), before.end());
  return numeric_changes(read(kGood, before).config, read(kGood, after).config, step);
}

std::vector<std::string> keys(const std::vector<Change>& of) {
  std::vector<std::string> all;
  for (const Change& change : of) all.push_back(change.key);
  return all;
}

TEST(allowed_changes, are_those_of_the_list) {
  const std::vector<Override> changed{{"training.max_norm", "2"}, {"optimizer.beta1", "0.8"}};
  EXPECT_THAT(keys(changes({}, changed, 5).refused),
              ElementsAre("training.max_norm", "optimizer.beta1"));
  std::vector<Override> one = changed;
  one.push_back({"checkpoint.allow_changes", "[\"optimizer.beta1\"]"});
  const NumericChanges found = changes({}, one, 5);
  EXPECT_THAT(keys(found.refused), ElementsAre("training.max_norm"));
  EXPECT_THAT(keys(found.allowed), ElementsAre("optimizer.beta1"));
  EXPECT_THAT(refusal_text(found, read(kGood, one).config),
              HasSubstr("training.max_norm: 1.0 -> 2.0\nUndo the change, or allow it: [checkpoint] "
                        "allow_changes = [\"optimizer.beta1\", \"training.max_norm\"]"));
  std::vector<Override> all = changed;
  all.push_back({"checkpoint.allow_changes", "[\"all\"]"});
  EXPECT_THAT(changes({}, all, 5).refused, IsEmpty());
}

TEST(allowed_changes, of_the_rate_need_nobody_while_its_past_is_the_same) {
  const std::vector<Override> wsd{{"lr_scheduler.name", "wsd"}};  // decays from step 80
  const std::vector<Override> longer{{"training.steps", "200"}};
  EXPECT_THAT(changes(wsd, longer, 80).refused, IsEmpty());
  EXPECT_THAT(keys(changes(wsd, longer, 81).refused), ElementsAre("training.steps"));
  EXPECT_THAT(keys(changes({}, longer, 1).refused), ElementsAre("training.steps"));
  EXPECT_THAT(changes({}, {{"optimizer.lr", "1e-3"}}, 0).refused, IsEmpty());
  EXPECT_THAT(keys(changes({}, {{"optimizer.lr", "1e-3"}}, 1).refused),
              ElementsAre("optimizer.lr"));
}

TEST(allowed_changes, are_not_asked_for_what_is_no_numerics) {
  EXPECT_THAT(
      changes({}, {{"training.on_spike", "skip"}, {"training.on_nonfinite", "skip"}}, 5).refused,
      IsEmpty());
  EXPECT_THAT(
      changes({}, {{"job.threads", "2"}, {"activation_checkpoint.mode", "full"}}, 5).refused,
      IsEmpty());
}

}  // namespace
}  // namespace trireme
