#pragma once
#include <string>
#include <vector>

#include "parallel/pipeline/published.h"
#include "parallel/pipeline/simulate.h"
#include "trainer/engine/step_ops.h"
#include "trainer/tools/plan/stage_costs.h"
#include "trainer/tools/plan/workload.h"

namespace trireme {

// Communication along one mesh axis per step, of a rank of the busiest stage.
struct AxisTraffic {
  std::string axis;    // "tensor", "context", "expert", "pipeline", "data"; "host": offload
  double bytes = 0;    // sent by the rank
  double seconds = 0;  // on the link
  double hidden = 0;   // part of it that overlaps computation
};

// Breakdown of the busiest rank's step time in seconds; the sum is StepEstimate::seconds.
struct TimeParts {
  double products = 0;  // matmuls, with recomputation
  double attention = 0;
  double streams = 0;    // memory-bound operations
  double messages = 0;   // exposed tensor, context, expert and ZeRO-3 communication
  double bubble = 0;     // waiting for other pipeline ranks
  double gradients = 0;  // exposed gradient reduction, which waits for the slowest node
  double optimizer = 0;  // the update and the exposed all-gather of its weights
  double offload = 0;    // exposed copies of offloaded activations and optimizer state
};

struct StepEstimate {
  double seconds = 0;
  TimeParts parts;
  std::vector<AxisTraffic> traffic;  // axes with more than one rank
  Schedule schedule;
  Timeline timeline;  // of the schedule, by pipeline rank
  std::vector<std::int64_t> layers_per_stage;

  double tokens_per_second(const Workload& work) const;
};

// Predicts the time of a step: a roofline per op, an alpha-beta model per message, and a simulation
// of the pipeline schedule. Ranks that differ only along the data, context and tensor axes behave
// equally, so only one pipeline is simulated whatever the number of ranks. Throws ConfigError if
// the layout is invalid.
StepEstimate estimate_step(const Workload& work, const DeviceProfile& device);
// Of ops that are not those of record_step.
StepEstimate estimate_step(const Workload& work, const StepOps& ops, const DeviceProfile& device);

// With a schedule that has been made before.
StepEstimate estimate_step(const Workload& work, const StepOps& ops, const DeviceProfile& device,
                           const Simulation& schedule);

// The costs of all pipeline stages, of which stage i has layers_per_stage[i] layers.
std::vector<StageCosts> costs_of_stages(const StepOps& ops, const StepTimes& times,
                                        const Workload& work, const DeviceProfile& device,
                                        const std::vector<std::int64_t>& layers_per_stage);
ActionCosts action_costs(const std::vector<StageCosts>& stages, const StepOps& ops,
                         const Workload& work, const Network& network);
PipelineShape pipeline_shape(const Workload& work);

}  // namespace trireme
