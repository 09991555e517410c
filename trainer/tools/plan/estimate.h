#pragma once
#include <string>
#include <vector>

#include "parallel/pipeline/simulate.h"
#include "trainer/tools/plan/workload.h"

namespace trireme {

// Messages along one axis of the mesh, of a rank of the busiest stage in a step.
struct AxisTraffic {
  std::string axis;    // "tensor", "context", "pipeline", "data"
  double bytes = 0;    // sent by the rank
  double seconds = 0;  // on the link
  double hidden = 0;   // of these, behind computation
};

// Where a step's time goes, of the rank that is busiest. They add up to StepEstimate::seconds.
struct TimeParts {
  double products = 0;  // matrix products, recomputed ones included
  double attention = 0;
  double streams = 0;    // operations bound by memory
  double messages = 0;   // waiting for tensor and context ranks, and for weights (ZeRO-3)
  double bubble = 0;     // waiting for other stages
  double gradients = 0;  // the sum over data ranks, where nothing hides it
  double optimizer = 0;  // the update and the gathering of its results
};

struct StepEstimate {
  double seconds = 0;
  TimeParts parts;
  std::vector<AxisTraffic> traffic;  // of axes with more than one rank
  Schedule schedule;
  Timeline timeline;  // of the schedule, one rank a stage's column
  std::vector<std::int64_t> layers_per_stage;
  // FLOPs of the step over all ranks: useful without recomputation, causal attention as computed.
  double useful_flops = 0, issued_flops = 0, useful_flops_full_attention = 0;

  double tokens_per_second(const Workload& work) const;
  double mfu(const Workload& work, const DeviceProfile& device) const;  // of the vendor's peak
};

// Predicts a step: a roofline for every operation, alpha-beta for every message, and the
// pipeline's action lists played against each other. Ranks that differ in the data, context and
// tensor axes do the same at the same time and are not simulated apart, so that 16,384 ranks take
// no longer than one pipeline. Throws ConfigError where the layout cannot be.
StepEstimate estimate_step(const Workload& work, const DeviceProfile& device);

}  // namespace trireme
