#pragma once
#include <vector>

#include "parallel/pipeline/schedule.h"

namespace trireme {

// Micro-batches that a rank holds at most at the same time, over all its stages: from
// a forward to the last action that reads what it has kept.
int peak_in_flight(const std::vector<Action>& actions);
std::vector<int> peak_in_flight(const Schedule& schedule);  // of each rank

// Which of as many equal pieces of memory each of a rank's actions uses, by index in its
// list. The piece given back longest ago is taken first.
std::vector<int> assign_slots(const std::vector<Action>& actions);

}  // namespace trireme
