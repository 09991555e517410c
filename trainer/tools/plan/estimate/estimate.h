#pragma once
#include <array>
#include <string>
#include <vector>

#include "parallel/pipeline/published.h"
#include "parallel/pipeline/simulate.h"
#include "trainer/engine/step_ops.h"
#include "trainer/tools/plan/estimate/stage_costs.h"
#include "trainer/tools/plan/estimate/workload.h"

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
  double gradients = 0;  // exposed gradient reduction
  double waiting = 0;    // for the slowest node, or core
  double optimizer = 0;  // the update and the exposed all-gather of its weights
  double offload = 0;    // exposed copies of offloaded activations and optimizer state
};

struct TimePart {
  const char* name;
  const char* key;  // in JSON
  double TimeParts::*seconds;
};
inline constexpr std::array<TimePart, 9> kTimeParts{{
    {"matmul", "products", &TimeParts::products},
    {"attention", "attention", &TimeParts::attention},
    {"memory-bound", "memory_bound", &TimeParts::streams},
    {"exposed communication", "messages", &TimeParts::messages},
    {"pipeline bubble", "bubble", &TimeParts::bubble},
    {"gradient reduction", "gradients", &TimeParts::gradients},
    {"slowest node", "slowest_node", &TimeParts::waiting},
    {"optimizer", "optimizer", &TimeParts::optimizer},
    {"offload", "offload", &TimeParts::offload},
}};

// What the sum of a step is made of in addition to the ops.
struct StepSums {
  int busiest = 0;   // the pipeline rank of forwards and backwards
  int updating = 0;  // the pipeline rank with the longest update
  double pace = 1;   // multiplies the seconds of `busiest` where ranks share cores
  std::vector<StageCosts> stages;
  double reducing = 0;    // exposed reduction of gradients by data ranks
  double tied = 0;        // all-reduce of the tied table's gradient
  double publishing = 0;  // exposed gather of updated weights
  double state = 0;       // exposed copies of optimizer state
  MessageTime reduced = {}, published = {};
};

struct StepEstimate {
  double seconds = 0;
  TimeParts parts;
  StepSums sums;
  std::vector<AxisTraffic> traffic;  // axes with more than one rank
  Schedule schedule;
  Timeline timeline;  // of the schedule, by pipeline rank
  std::vector<std::int64_t> layers_per_stage;

  double tokens_per_second(const Workload& work) const;
};

// Throws ConfigError if the device has no matmuls of these numbers.
void require_numbers(const DeviceProfile& device, const Workload& work);

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
// By times of ops that are already known.
StepEstimate estimate_step(const Workload& work, const StepTimes& times,
                           const DeviceProfile& device, const Simulation& schedule);

// The layers of all pipeline stages, of which stage i has layers_per_stage[i]. `kind_of`:
// StepOps::kind_of.
std::vector<StageLayers> layers_of_stages(const std::vector<std::size_t>& kind_of,
                                          const std::vector<std::int64_t>& layers_per_stage);
// The costs of these stages.
std::vector<StageCosts> costs_of_stages(const StepTimes& times, const Workload& work,
                                        const DeviceProfile& device,
                                        const std::vector<std::int64_t>& layers_per_stage);
ActionCosts action_costs(const std::vector<StageCosts>& stages, const StepTimes& times);
PipelineShape pipeline_shape(const Workload& work);

}  // namespace trireme
