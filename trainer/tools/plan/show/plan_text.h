#pragma once
#include <string>
#include <utility>
#include <vector>

#include "trainer/tools/plan/run_plan.h"
#include "trainer/tools/plan/show/memory_bars.h"

namespace trireme {

// The plan as (label, text) rows; each row states the assumptions of its numbers.
using PlanRow = std::pair<std::string, std::string>;
std::vector<PlanRow> plan_rows(const RunPlan& plan, const PlanOptions& options);

// The rows, the communication per axis, memory bars and the timeline of the schedule.
std::string plan_text(const RunPlan& plan, const PlanOptions& options, const Canvas& canvas);

// The flavor, such as "llama3-70b", or else model_type.
std::string model_name(const RunConfig& config);

}  // namespace trireme
