#include "trainer/loop/data_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/config/support.h"

namespace trireme {
namespace {

using testing::HasSubstr;
using testing::Not;

const Override kBatch{"training.global_batch_size", "4"};
const Override kListed{"checkpoint.allow_changes", "[\"data.stages\"]"};

// From step 11 on, samples 40 and on.
const Override kB{"data.stages", "[{ from_step = 11, train = [{ path = '/b', weight = 2 }] }]"};
const Override kC{"data.stages", "[{ from_step = 11, train = [{ path = '/c' }] }]"};

StageChange change(const std::vector<Override>& before, const std::vector<Override>& after,
                   std::uint64_t position) {
  std::vector<Override> first{kBatch}, second{kBatch};
  first.insert(first.end(), before.begin(), before.end());
  second.insert(second.end(), after.begin(), after.end());
  return stage_change(read(kGood, first).config, read(kGood, second).config, position);
}

TEST(stage_change, of_what_is_to_come_has_to_be_listed) {
  EXPECT_FALSE(change({}, {}, 40).allowed);
  EXPECT_EQ(change({}, {}, 40).advice, "");
  EXPECT_TRUE(change({}, {kB, kListed}, 40).allowed);
  EXPECT_TRUE(change({kB}, {kC, kListed}, 40).allowed);
  EXPECT_TRUE(change({kB}, {kListed}, 17).allowed);
  const StageChange unlisted = change({}, {kB}, 40);
  EXPECT_FALSE(unlisted.allowed);
  EXPECT_THAT(unlisted.advice, HasSubstr("allow_changes = [\"data.stages\"]"));
  EXPECT_THAT(unlisted.advice, Not(HasSubstr("keep what")));
}

TEST(stage_change, of_what_was_trained_on_is_refused_with_the_lines_that_keep_it) {
  EXPECT_FALSE(change({}, {kB, kListed}, 41).allowed);
  EXPECT_FALSE(change({kB}, {kC, kListed}, 41).allowed);
  const Override weights{"data.train", "[{ path = '/new', weight = 3 }]"};
  const StageChange train = change({}, {weights, kListed}, 41);
  EXPECT_FALSE(train.allowed);
  EXPECT_THAT(train.advice,
              HasSubstr("train = [{ path = \"/home/me/text\", weight = 1.0 }]\n"
                        "  [data] stages = [{ from_step = 12, train = [{ path = \"/new\", weight = "
                        "3.0 }] }]"));
  EXPECT_THAT(change({kB}, {kC}, 41).advice,
              HasSubstr("stages = [{ from_step = 11, train = [{ path = \"/b\", weight = 2.0 }] }, "
                        "{ from_step = 12, train = [{ path = \"/c\", weight = 1.0 }] }]"));
}

TEST(stage_change, tells_how_to_change_the_length_of_sequences) {
  const Override longer{"training.seq_len", "2048"};
  EXPECT_THAT(change({}, {longer}, 41).advice,
              HasSubstr("  [training] seq_len = 1024\n"
                        "  [data] train = [{ path = \"/home/me/text\", weight = 1.0 }]\n"
                        "  [data] stages = [{ from_step = 12, seq_len = 2048 }]"));
  const Override stage{"data.stages", "[{ from_step = 11, seq_len = 2048 }]"};
  const Override other{"data.stages", "[{ from_step = 11, seq_len = 4096 }]"};
  EXPECT_TRUE(change({}, {stage, kListed}, 40).allowed);
  EXPECT_TRUE(change({stage}, {other, kListed}, 40).allowed);
  EXPECT_FALSE(change({stage}, {other, kListed}, 41).allowed);
  EXPECT_FALSE(change({stage}, {kListed}, 41).allowed);
}

TEST(stage_change, counts_the_samples_of_shorter_steps) {
  const Override ramp{"training.rampup_batch_size", "[[1, 1], [5, 2], [8, 4]]"};
  // Steps 1 to 10 have 4 + 6 + 12 samples.
  EXPECT_TRUE(change({ramp}, {ramp, kB, kListed}, 22).allowed);
  EXPECT_FALSE(change({ramp}, {ramp, kB, kListed}, 23).allowed);
  EXPECT_THAT(change({ramp}, {ramp, kB}, 23).advice, HasSubstr("from_step = 12,"));
  EXPECT_THAT(change({ramp}, {ramp, kB}, 26).advice, HasSubstr("from_step = 12,"));
  EXPECT_THAT(change({ramp}, {ramp, kB}, 27).advice, HasSubstr("from_step = 13,"));
  EXPECT_FALSE(change({}, {ramp, kB, kListed}, 1).allowed);
}

}  // namespace
}  // namespace trireme
