#pragma once
#include "trainer/tools/plan/estimate/estimate.h"
#include "trainer/tools/plan/estimate/plan_node.h"

namespace trireme {

// The seconds of `estimate`, which was made from the same ops: phases, kinds of layers, ops.
// Forward, recomputation and backward are the computation of the pipeline rank
// StepSums::busiest; the update is that of the rank StepSums::updating. Communication and
// offload count where nothing overlaps them.
PlanNode time_tree(const Workload& work, const StepOps& ops, const DeviceProfile& device,
                   const StepEstimate& estimate);

}  // namespace trireme
