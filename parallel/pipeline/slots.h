#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace trireme {

// Most micro-batches in flight on a rank at any time, over all its stages: from a forward to the
// last action that reads its saved tensors.
int peak_in_flight(const std::vector<Action>& actions);
std::vector<int> peak_in_flight(const Schedule& schedule);  // by rank

// Slots are memory for the saved activations of one micro-batch in flight. The slots of a pool have
// one size and are shared by its stages.
struct SlotPools {
  std::map<int, int> of_stage;  // pool of each stage of the rank
  std::vector<int> slots;       // slots per pool; slots are numbered consecutively over the pools

  int count() const;
};

// Slots of a rank that suffice for any of `schedules`, the last of which is the longest. In a
// single pool every slot has the size of the largest stage; stages get separate pools if this needs
// less memory in total. `sizes`: by stage, in any unit.
SlotPools divide_slots(std::span<const Schedule> schedules, int rank,
                       const std::vector<std::int64_t>& sizes);

// The slot of each action of a rank, by index in its list. Within a pool the least recently freed
// slot is used first.
std::vector<int> assign_slots(const std::vector<Action>& actions, const SlotPools& pools);

}  // namespace trireme
