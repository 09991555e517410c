#pragma once
#include <string>

#include "trainer/tools/plan/run_plan.h"

namespace trireme {

// The plan as one HTML page that needs no network, no script and no other file, in the look of the
// report's. `search`: what a search said, or nothing.
std::string plan_page(const RunPlan& plan, const PlanWishes& wishes, const std::string& search);

}  // namespace trireme
