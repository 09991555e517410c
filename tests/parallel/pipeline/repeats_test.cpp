// What is left of a rank's list without micro-batches that take the memory of others.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "parallel/pipeline/published.h"
#include "parallel/pipeline/rank_plan.h"

namespace trireme {
namespace {

using Which = std::pair<int, int>;                        // stage and micro-batch
using Steps = std::vector<std::pair<Action::Kind, int>>;  // with the boxes that each has

std::map<Which, Steps> steps_by_micro_batch(const RankPlan& plan) {
  std::map<Which, Steps> all;
  for (const RankPlan::Step& step : plan.steps) {
    int boxes = 0;
    for (const int box :
         {step.inbox, step.outbox, step.own_reader_inbox, step.forward_inbox, step.split_inbox}) {
      boxes = 2 * boxes + (box >= 0 ? 1 : 0);
    }
    all[{step.action.stage, step.action.micro_batch}].emplace_back(step.action.kind, boxes);
  }
  return all;
}

std::set<Which> with_first_steps(const RankPlan& plan) {
  std::set<Which> all;
  std::set<std::pair<int, Action::Kind>> seen;
  for (const RankPlan::Step& step : plan.steps) {
    if (seen.emplace(step.action.stage, step.action.kind).second) {
      all.emplace(step.action.stage, step.action.micro_batch);
    }
  }
  return all;
}

void expect_to_stand_for_all(const RankPlan& plan) {
  const RankPlan few = without_repeats(plan);
  EXPECT_EQ(few.inboxes, plan.inboxes);
  EXPECT_EQ(few.outboxes, plan.outboxes);
  const std::map<Which, Steps> all = steps_by_micro_batch(plan), kept = steps_by_micro_batch(few);
  auto next = few.steps.begin();
  for (const RankPlan::Step& step : plan.steps) {
    if (!kept.contains({step.action.stage, step.action.micro_batch})) continue;
    ASSERT_NE(next, few.steps.end());
    ASSERT_EQ(next->action, step.action);
    ++next;
  }
  EXPECT_EQ(next, few.steps.end());
  const std::set<Which> first = with_first_steps(plan);
  EXPECT_EQ(with_first_steps(few), first);
  for (const auto& [which, steps] : all) {
    if (kept.contains(which)) continue;
    const bool has_equal = std::any_of(kept.begin(), kept.end(), [&](const auto& other) {
      return other.first.first == which.first && other.second == steps &&
             !first.contains(other.first);
    });
    EXPECT_TRUE(has_equal) << "stage " << which.first << ", micro-batch " << which.second;
  }
}

RankPlans plan_of(const Schedule& schedule, int rank) {
  const std::vector<std::int64_t> equal(static_cast<std::size_t>(schedule.stages), 1);
  return plan_rank(schedule, rank, 1, divide_slots(std::span(&schedule, 1), rank, equal));
}

using Make = Schedule (*)(const PipelineShape&);

TEST(Repeats, of_published_schedules_stand_for_all_micro_batches) {
  const std::vector<std::pair<Make, int>> cases{{gpipe, 1},
                                                {one_forward_one_backward, 1},
                                                {zero_bubble_h1, 1},
                                                {interleaved_one_forward_one_backward, 3}};
  for (const auto& [make, virtual_stages] : cases) {
    for (const int ranks : {1, 2, 4}) {
      for (const int micro_batches : {ranks, 16, 64}) {
        const Schedule schedule = make({ranks, micro_batches, virtual_stages});
        for (int rank = 0; rank < ranks; ++rank) {
          const auto [training, evaluation] = plan_of(schedule, rank);
          expect_to_stand_for_all(training);
          expect_to_stand_for_all(evaluation);
        }
      }
    }
  }
}

TEST(Repeats, are_as_many_as_there_are_micro_batches_more) {
  for (const Make make : {one_forward_one_backward, zero_bubble_h1}) {
    for (int rank = 0; rank < 4; ++rank) {
      const RankPlan less = plan_of(make({4, 32, 1}), rank).training,
                     more = plan_of(make({4, 128, 1}), rank).training;
      EXPECT_EQ(without_repeats(less).steps.size(), without_repeats(more).steps.size());
      EXPECT_LT(without_repeats(more).steps.size(), 20u);
    }
  }
}

}  // namespace
}  // namespace trireme
