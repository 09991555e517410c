#pragma once
#include <string>

#include "trainer/tools/plan/run_plan.h"

namespace trireme {

// The plan as one self-contained HTML page without scripts, in the style of the report. `search` is
// the text of search_text, or empty.
std::string plan_page(const RunPlan& plan, const PlanOptions& options, const std::string& search);

}  // namespace trireme
