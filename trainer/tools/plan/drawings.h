#pragma once
#include <string>

#include "trainer/tools/plan/run_plan.h"

namespace trireme {

// SVG for a page: what each place in the pipeline holds, class by class, against what is to be
// had; and what it does when. The colors are classes of the page's style.
std::string memory_svg(const RunPlan& plan);
std::string timeline_svg(const StepEstimate& estimate);

}  // namespace trireme
