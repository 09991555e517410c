#pragma once
#include <functional>

#include "parallel/pipeline/simulate.h"

namespace trireme {

// As simulate(), for ranks that share hardware: while `busy` ranks compute, each runs at pace(busy)
// times the speed of `costs`; pace increases as fewer ranks are busy.
Timeline simulate_sharing(const Schedule& schedule, const ActionCosts& costs,
                          const std::function<double(int busy)>& pace);

}  // namespace trireme
