#pragma once
#include <functional>

#include "parallel/pipeline/simulate.h"

namespace trireme {

// As simulate(), of ranks that share what they compute with: while `busy` of them do, each goes
// pace(busy) times as fast as `costs` says, which rises as fewer are.
Timeline simulate_sharing(const Schedule& schedule, const ActionCosts& costs,
                          const std::function<double(int busy)>& pace);

}  // namespace trireme
