#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace trireme {

// Micro-batches that a rank holds at most at the same time, over all its stages: from
// a forward to the last action that reads what it has kept.
int peak_in_flight(const std::vector<Action>& actions);
std::vector<int> peak_in_flight(const Schedule& schedule);  // of each rank

// Slots are pieces of memory for what a micro-batch in flight keeps. Those of a pool are of one
// size and serve its stages in turn.
struct SlotPools {
  std::map<int, int> of_stage;  // the pool of each of a rank's stages
  std::vector<int> slots;       // how many each pool has; their numbers go on from pool to pool

  int count() const;
};

// The slots of a rank for any of `schedules`, of which the last is the longest. In one pool each
// would be as large as the largest stage needs: stages of other sizes have pools of their own where
// this takes less in all. `sizes`: of every stage, in any unit.
SlotPools divide_slots(std::span<const Schedule> schedules, int rank,
                       const std::vector<std::int64_t>& sizes);

// The slot of each of a rank's actions, by index in its list. Of a pool's slots the one given back
// longest ago is taken first.
std::vector<int> assign_slots(const std::vector<Action>& actions, const SlotPools& pools);

}  // namespace trireme
