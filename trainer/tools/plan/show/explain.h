#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/tools/plan/estimate/plan_node.h"
#include "trainer/tools/plan/run_plan.h"

namespace trireme {

// Both trees of a plan that has them, for a terminal of at least 120 columns. Nodes below 1 % of
// the whole are folded.
std::string explain_text(const RunPlan& plan);

// The same, whole.
nlohmann::ordered_json explain_json(const RunPlan& plan);

}  // namespace trireme
