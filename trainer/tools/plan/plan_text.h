#pragma once
#include <string>
#include <utility>
#include <vector>

#include "trainer/tools/plan/memory_bars.h"
#include "trainer/tools/plan/run_plan.h"

namespace trireme {

// The plan in aligned rows, for people; how far to trust each number is said beside it.
using PlanRow = std::pair<std::string, std::string>;
std::vector<PlanRow> plan_rows(const RunPlan& plan, const PlanWishes& wishes);

// The rows, messages along each axis, memory as bars and the schedule as a timeline.
std::string plan_text(const RunPlan& plan, const PlanWishes& wishes, const Canvas& canvas);

// "llama3-70b"
std::string model_name(const RunConfig& config);

}  // namespace trireme
