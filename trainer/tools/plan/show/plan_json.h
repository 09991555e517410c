#pragma once
#include <nlohmann/json.hpp>

#include "trainer/tools/plan/run_plan.h"

namespace trireme {

// The degrees of a layout.
nlohmann::ordered_json layout_json(const ParallelismConfig& layout);

// All numbers of the plan in bytes, seconds, FLOPs and fractions of 1.
nlohmann::ordered_json plan_json(const RunPlan& plan, const PlanOptions& options);

}  // namespace trireme
