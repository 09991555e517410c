#pragma once
#include "trainer/tools/plan/estimate/estimate.h"
#include "trainer/tools/plan/estimate/plan_node.h"
#include "trainer/tools/plan/layout_plan.h"

namespace trireme {

// The pipeline rank that needs most memory of its device.
int largest_place(const LayoutPlan& layout);

// The bytes that a pipeline rank needs of its device (PipelinePlace::device_bytes): classes, and
// their parts as far as the planner knows them. `ops` of the same layout divide saved activations
// by kinds of layers; null: they stay undivided.
PlanNode memory_tree(const PipelinePlace& place, const Workload& work, const StepOps* ops);

}  // namespace trireme
