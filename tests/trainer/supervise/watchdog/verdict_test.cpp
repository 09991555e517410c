#include "trainer/supervise/watchdog/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using flight::Operation;
using flight::Phase;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kNow = 1000 * kSecond;

// Four ranks, tensor=2 x pipeline=2, which all are 120 steps on their way.
class World : public testing::Test {
 protected:
  World() {
    for (int r = 0; r < 4; ++r) {
      RankReport report;
      report.host = r < 2 ? "node041" : "node042";
      report.now = kNow;
      report.page.progress.step = 120;
      report.page.progress.changed = kNow;
      report.page.groups = {group("world", 1, 4),
                            group("tensor", r < 2 ? 10 : 11, 2),
                            group("pipeline_up", r % 2 == 0 ? 20 : 21, 2),
                            {}};
      ranks_.push_back(report);
    }
    for (RankReport& report : ranks_) report.page.groups[3] = group("all", 30, 4);
  }

  static RecordedGroup group(const char* name, std::uint64_t key, std::uint32_t size) {
    return {.name = name, .key = key, .size = size, .begun = 411, .finished = 411};
  }

  void at(int rank, Phase phase, int micro_batch = -1, int layer = -1) {
    flight::Progress& progress = ranks_[rank].page.progress;
    progress.phase = static_cast<std::uint32_t>(phase);
    progress.micro_batch = micro_batch;
    progress.layer = layer;
  }
  void in_collective(int rank, int number, Operation operation, double seconds) {
    wait(rank, number, operation, seconds);
    ranks_[rank].page.progress.sequence = ++ranks_[rank].page.groups[number].begun;
  }
  void in_message(int rank, int number, Operation operation, int peer, double seconds) {
    wait(rank, number, operation, seconds);
    ranks_[rank].page.progress.sequence = 7;
    ranks_[rank].page.progress.peer = peer;
  }
  void unchanged(int rank, double seconds) {
    ranks_[rank].page.progress.changed = kNow - static_cast<std::int64_t>(seconds * kSecond);
  }

  std::vector<RankReport> ranks_;
  static constexpr int kWorld = 0, kTensor = 1, kUp = 2, kAll = 3;

 private:
  void wait(int rank, int number, Operation operation, double seconds) {
    flight::Progress& progress = ranks_[rank].page.progress;
    progress.operation = static_cast<std::uint32_t>(operation);
    progress.group = number;
    progress.waits_since = kNow - static_cast<std::int64_t>(seconds * kSecond);
    progress.changed = progress.waits_since;
  }
};

TEST_F(World, that_is_well_has_no_verdict) {
  EXPECT_FALSE(judge_health(ranks_));
  EXPECT_FALSE(judge_stall(ranks_, {}));
  ranks_[2].health = RankHealth::kLeft;
  EXPECT_FALSE(judge_health(ranks_));
}

TEST_F(World, with_a_killed_rank_names_it_its_place_and_all_that_wait) {
  at(2, Phase::kBackward, 3, 17);
  ranks_[2].health = RankHealth::kLost;
  at(3, Phase::kBackward, 3, 17);
  in_collective(3, kTensor, Operation::kAllReduce, 0.4);
  in_message(0, kUp, Operation::kReceive, 2, 0.3);
  in_message(1, kUp, Operation::kReceive, 3, 0.2);
  const auto verdict = judge_health(ranks_);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->ranks, ElementsAre(2));
  EXPECT_EQ(verdict->text,
            "rank 2 (node042) was killed or crashed (connection lost) in step 120, backward of "
            "micro-batch 3, layer 17; blocked on it for 0.4 s: rank 0 in receive 7 of group "
            "pipeline_up from rank 2, rank 3 in all_reduce 412 of group tensor [2 3], rank 1 in "
            "receive 7 of group pipeline_up from rank 3");
}

TEST_F(World, with_a_rank_killed_inside_a_collective_names_the_collective) {
  at(1, Phase::kReport);
  for (int r = 0; r < 4; ++r) in_collective(r, kAll, Operation::kAllReduce, 0.1);
  ranks_[1].health = RankHealth::kLost;
  const auto verdict = judge_health(ranks_);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->text, HasSubstr("step 120, report, all_reduce 412 of group all [0 1 2 3]"));
  EXPECT_THAT(verdict->text, HasSubstr("ranks 0, 2 and 3 in all_reduce 412 of group all"));
}

TEST_F(World, has_come_to_rest_when_all_that_are_well_wait) {
  ranks_[2].health = RankHealth::kLost;
  EXPECT_FALSE(all_wait(ranks_));
  in_collective(3, kTensor, Operation::kAllReduce, 0.1);
  in_message(0, kUp, Operation::kReceive, 2, 0.1);
  EXPECT_FALSE(all_wait(ranks_));
  ranks_[1].health = RankHealth::kLeft;
  EXPECT_TRUE(all_wait(ranks_));
}

TEST_F(World, blames_what_cannot_be_a_consequence) {
  ranks_[0].health = RankHealth::kPeerFailed;
  ranks_[0].words = "receive in group 'pipeline_up' failed: peer gone";
  EXPECT_THAT(judge_health(ranks_)->ranks, ElementsAre(0));
  ranks_[3].health = RankHealth::kSilent;
  ranks_[3].silent_s = 31;
  EXPECT_THAT(judge_health(ranks_)->ranks, ElementsAre(3));
  EXPECT_THAT(judge_health(ranks_)->text, HasSubstr("no heartbeat for 31.0 s"));
  ranks_[1].health = RankHealth::kFailed;
  ranks_[1].words = "train.bin: cannot read\ntoken 7";
  EXPECT_THAT(judge_health(ranks_)->ranks, ElementsAre(1));
  EXPECT_THAT(judge_health(ranks_)->text, HasSubstr(": train.bin: cannot read token 7; no rank"));
  ranks_[2].health = RankHealth::kLost;
  EXPECT_THAT(judge_health(ranks_)->ranks, ElementsAre(2));
  ranks_[3].health = RankHealth::kLost;
  EXPECT_THAT(judge_health(ranks_)->ranks, ElementsAre(2, 3));
  EXPECT_THAT(judge_health(ranks_)->text, HasSubstr("; also rank 3"));
}

TEST_F(World, does_not_blame_those_that_a_launcher_ended_after_the_first) {
  constexpr std::int64_t kMillisecond = kSecond / 1000;
  at(3, Phase::kForward, 1, 1);
  for (const int rank : {0, 1, 3}) ranks_[rank].health = RankHealth::kLost;
  ranks_[3].bad_since = kNow;
  ranks_[1].bad_since = kNow + 40 * kMillisecond;
  ranks_[0].bad_since = kNow + 41 * kMillisecond;
  const auto verdict = judge_health(ranks_);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->ranks, ElementsAre(3));
  EXPECT_EQ(verdict->text,
            "rank 3 (node042) was killed or crashed (connection lost) in step 120, forward of "
            "micro-batch 1, layer 1; no rank is blocked on it yet; ranks 0 and 1 exited after it");
  // A rank that failed is not blamed for what fell before it, nor the other way round.
  ranks_[1].health = RankHealth::kFailed;
  EXPECT_THAT(judge_health(ranks_)->ranks, ElementsAre(3));
  ranks_[1].bad_since = kNow - 40 * kMillisecond;
  EXPECT_THAT(judge_health(ranks_)->ranks, ElementsAre(1));
  ranks_[1].health = RankHealth::kLost;
  // What came at one moment has no order, unless one saw another go.
  for (RankReport& report : ranks_) report.bad_since = kNow;
  EXPECT_THAT(judge_health(ranks_)->ranks, ElementsAre(0, 1, 3));
  ranks_[0].outlived = ranks_[1].outlived = {3};
  EXPECT_THAT(judge_health(ranks_)->ranks, ElementsAre(3));
}

TEST_F(World, before_the_first_step_names_the_phase_alone) {
  ranks_[1].page.progress.step = 0;
  at(1, Phase::kLoad);
  ranks_[1].health = RankHealth::kLost;
  EXPECT_THAT(judge_health(ranks_)->text,
              HasSubstr("rank 1 (node041) was killed or crashed (connection lost) in load;"));
}

TEST_F(World, that_stalls_blames_the_rank_that_never_entered) {
  for (const int r : {0, 1, 3}) in_collective(r, kAll, Operation::kAllReduce, 700);
  at(2, Phase::kData);
  unchanged(2, 650);
  EXPECT_FALSE(judge_stall(ranks_, {.usual_s = 651})) << "it may still be at work";
  const auto verdict = judge_stall(ranks_, {.usual_s = 600});
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->ranks, ElementsAre(2));
  EXPECT_THAT(verdict->text, HasSubstr("rank 2 (node042) made no progress for 650.0 s in step 120, "
                                       "data; blocked on it for 700.0 s: ranks 0, 1 and 3 in"));
}

TEST_F(World, that_stalls_blames_the_rank_that_was_stopped_on_entry) {
  at(2, Phase::kForward, 0);
  unchanged(2, 30);
  ++ranks_[2].page.groups[kTensor].begun;
  in_collective(3, kTensor, Operation::kAllReduce, 30);
  const auto verdict = judge_stall(ranks_, {});
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->ranks, ElementsAre(2));
  EXPECT_THAT(verdict->text, HasSubstr("blocked on it for 30.0 s: rank 3 in all_reduce 412"));
}

TEST_F(World, that_stalls_follows_the_waiting_to_its_end) {
  in_message(0, kUp, Operation::kReceive, 2, 620);
  in_message(1, kUp, Operation::kReceive, 3, 630);
  in_collective(3, kTensor, Operation::kAllReduce, 640);
  unchanged(2, 645);
  at(2, Phase::kBackward, 1, 4);
  const auto verdict = judge_stall(ranks_, {.usual_s = 600});
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->ranks, ElementsAre(2));
  EXPECT_THAT(verdict->text, HasSubstr("backward of micro-batch 1, layer 4"));
}

TEST_F(World, while_the_awaited_rank_works_does_not_stall) {
  for (const int r : {0, 1, 3}) in_collective(r, kAll, Operation::kAllReduce, 700);
  unchanged(2, 1);
  EXPECT_FALSE(judge_stall(ranks_, {.usual_s = 600}));
}

TEST_F(World, may_wait_longer_for_a_rank_that_waits_for_storage) {
  for (const int r : {0, 1, 3}) in_collective(r, kAll, Operation::kAllReduce, 700);
  unchanged(2, 700);
  const StallLimits limits{.usual_s = 600, .storage_s = 800};
  for (const Phase phase : {Phase::kStart, Phase::kLoad, Phase::kSave}) {
    at(2, phase);
    EXPECT_FALSE(judge_stall(ranks_, limits)) << flight::name_of(phase);
    EXPECT_TRUE(judge_stall(ranks_, {.usual_s = 699, .storage_s = 5}));
  }
  at(2, Phase::kData);
  EXPECT_TRUE(judge_stall(ranks_, limits));
  in_collective(2, kTensor, Operation::kAllReduce, 700);
  at(3, Phase::kSave);
  EXPECT_FALSE(judge_stall(ranks_, limits)) << "one of a circle may";
}

TEST_F(World, of_ranks_that_wait_in_a_circle_names_them_all) {
  in_message(0, kUp, Operation::kSend, 2, 700);
  in_message(2, kUp, Operation::kSend, 0, 690);
  in_collective(1, kTensor, Operation::kAllReduce, 710);
  const auto verdict = judge_stall(ranks_, {.usual_s = 600});
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->ranks, ElementsAre(0, 2));
  EXPECT_THAT(verdict->text, HasSubstr("deadlock for 690.0 s: rank 0"));
  EXPECT_FALSE(judge_stall(ranks_, {.usual_s = 695}));
}

TEST_F(World, of_ranks_in_two_collectives_that_each_lack_the_other_is_a_circle) {
  in_collective(2, kTensor, Operation::kAllReduce, 700);
  in_collective(3, kAll, Operation::kAllReduce, 710);
  in_collective(0, kAll, Operation::kAllReduce, 710);
  in_collective(1, kAll, Operation::kAllReduce, 710);
  const auto verdict = judge_stall(ranks_, {.usual_s = 600});
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->ranks, ElementsAre(2, 3));
}

TEST_F(World, whose_collective_all_have_begun_blames_the_one_that_waits_longest) {
  for (int r = 0; r < 4; ++r) in_collective(r, kAll, Operation::kAllGather, 700 + r);
  const auto verdict = judge_stall(ranks_, {.usual_s = 600});
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->ranks, ElementsAre(3));
  EXPECT_THAT(verdict->text,
              HasSubstr("no progress for 703.0 s, although no rank is missing, in step 120"));
  EXPECT_THAT(verdict->text, HasSubstr("all_gather 412"));
}

TEST_F(World, that_is_large_is_told_in_a_short_line) {
  const RankReport model = ranks_[0];
  ranks_.assign(512, model);
  for (int r = 0; r < 512; ++r) {
    ranks_[r].page.groups = {group("world", 1, 512)};
    if (r != 77) in_collective(r, kWorld, Operation::kBarrier, 2);
  }
  ranks_[77].health = RankHealth::kLost;
  const auto verdict = judge_health(ranks_);
  ASSERT_TRUE(verdict);
  EXPECT_THAT(verdict->text, HasSubstr("511 ranks, 0 1 ... 511 in barrier 412"));
  EXPECT_LT(verdict->text.size(), 300u);
  EXPECT_THAT(verdict->text, Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace trireme
