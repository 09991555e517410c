#pragma once
#include <string>
#include <vector>

#include "trainer/engine/step_ops.h"
#include "trainer/tools/plan/estimate/workload.h"

namespace trireme {

// Names of the kinds of layers of a step (StepOps::kinds), such as "blocks with experts".
std::vector<std::string> kind_names(const Workload& work, const StepOps& ops);

}  // namespace trireme
