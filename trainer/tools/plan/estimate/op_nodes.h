#pragma once
#include <functional>
#include <vector>

#include "trainer/tools/plan/estimate/op_time.h"
#include "trainer/tools/plan/estimate/plan_node.h"

namespace trireme {

using OpTimes = std::vector<OpTime>;

// The ops of a list that `counts` accepts by name, messages by their collective, the largest first:
// `times` the list, in seconds multiplied by `pace`.
std::vector<PlanNode> op_nodes(const OpTimes& list, double times, double pace,
                               const std::function<bool(const OpTime&)>& counts);

}  // namespace trireme
