#pragma once
#include <string>

#include "trainer/tools/plan/run_plan.h"

namespace trireme {

// SVG elements: memory of each pipeline rank by class against the memory available, and the
// timeline of each pipeline rank. Colors are CSS classes of plan.css.
std::string memory_svg(const RunPlan& plan);
std::string timeline_svg(const StepEstimate& estimate);

}  // namespace trireme
