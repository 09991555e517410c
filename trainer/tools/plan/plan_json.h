#pragma once
#include <nlohmann/json.hpp>

#include "trainer/tools/plan/run_plan.h"

namespace trireme {

// Everything the plan knows, for programs: bytes, seconds, FLOPs and shares of 1.
nlohmann::ordered_json plan_json(const RunPlan& plan, const PlanWishes& wishes);

}  // namespace trireme
