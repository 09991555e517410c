#include "parallel/pipeline/slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "parallel/pipeline/published.h"

namespace trireme {
namespace {

// What a rank's micro-batches in flight take at most at one time, by walking its list.
std::int64_t held_at_most(const std::vector<Action>& actions,
                          const std::vector<std::int64_t>& sizes) {
  std::int64_t now = 0, most = 0;
  for (const Action& action : actions) {
    const std::int64_t size = sizes[action.stage];
    if (action.kind == Action::Kind::kForward) most = std::max(most, now += size);
    if (action.is_last_of_micro_batch()) now -= size;
  }
  return most;
}

// 126 layers in 112 stages, as a model of 405B parameters has them on 16 ranks of 7 stages.
TEST(Slots, of_stages_of_two_sizes_take_little_more_than_is_held) {
  std::vector<std::int64_t> sizes(112, 1);
  for (std::size_t i = 1; i < 112; i += 8) sizes[i] = 2;
  for (const int micro_batches : {32, 256}) {
    const Schedule schedule = interleaved_one_forward_one_backward({16, micro_batches, 7});
    for (int rank = 0; rank < 16; ++rank) {
      const std::vector<Action>& actions = schedule.ranks[rank];
      const SlotPools pools = divide_slots(std::span(&schedule, 1), rank, sizes);
      std::vector<std::int64_t> of_pool(pools.slots.size(), 0);
      for (const auto& [stage, pool] : pools.of_stage) {
        of_pool[pool] = std::max(of_pool[pool], sizes[stage]);
      }
      std::int64_t taken = 0;
      for (std::size_t pool = 0; pool < of_pool.size(); ++pool) {
        taken += pools.slots[pool] * of_pool[pool];
      }
      const double held = static_cast<double>(held_at_most(actions, sizes));
      EXPECT_LE(static_cast<double>(taken), 1.15 * held) << "rank " << rank;

      // No slot is taken while it is held.
      const std::vector<int> slots = assign_slots(actions, pools);
      std::map<int, std::pair<int, int>> holder;
      for (std::size_t i = 0; i < actions.size(); ++i) {
        const Action& action = actions[i];
        const std::pair<int, int> which{action.stage, action.micro_batch};
        ASSERT_LT(slots[i], pools.count());
        if (action.kind == Action::Kind::kForward) {
          ASSERT_TRUE(holder.emplace(slots[i], which).second) << action;
        }
        ASSERT_EQ(holder.at(slots[i]), which) << action;
        if (action.is_last_of_micro_batch()) holder.erase(slots[i]);
      }
    }
  }
}

TEST(Slots, are_one_pool_where_several_would_take_more) {
  const std::vector<Schedule> schedules{interleaved_one_forward_one_backward({2, 4, 2}),
                                        interleaved_one_forward_one_backward({2, 8, 2})};
  EXPECT_EQ(divide_slots(schedules, 0, {1, 1, 1, 1}).slots.size(), 1u);
  EXPECT_EQ(divide_slots(schedules, 0, {1, 1, 3, 1}).slots.size(), 2u);
  EXPECT_EQ(divide_slots(schedules, 1, {1, 3, 1, 1}).slots.size(), 1u);
}

}  // namespace
}  // namespace trireme
