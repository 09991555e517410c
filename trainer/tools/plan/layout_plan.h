#pragma once
#include <cstdint>
#include <vector>

#include "trainer/config/run_config.h"
#include "trainer/engine/step_plan.h"

namespace trireme {

// What a rank at one place in the pipeline takes and does in a step. Ranks that differ along other
// axes take and do the same.
struct PipelinePlace {
  StepPlan step;
  std::size_t snapshot_bytes = 0;  // of the host's memory, for checkpoints written on the side

  // What must be free on the device (of a CPU rank with the snapshot), and beside it on the host.
  std::size_t device_bytes = 0, host_bytes = 0;
};

// A run of any number of ranks, planned by the very walk that sizes the trainer's arenas, one rank
// for each place in the pipeline; nothing is allocated and nobody is talked to.
struct LayoutPlan {
  Device device;
  std::vector<PipelinePlace> places;  // in order along the pipeline
  double issued_flops = 0;            // of a step, over all ranks
  std::size_t most_device_bytes() const;
  std::size_t most_host_bytes() const;
};

// `config` is for_ranks: its data degrees are settled. An imagined GPU plans for one that is not
// here. Throws ConfigError where the layout cannot be.
LayoutPlan plan_layout(const RunConfig& config, Device device);
PipelinePlace plan_place(const RunConfig& config, Device device, int place);

// Of the model, whatever the layout.
struct ModelPlan {
  std::int64_t parameters = 0;
  std::int64_t matrix_parameters = 0;  // that tokens are multiplied with: without looked-up tables
  std::size_t checkpoint_bytes = 0;    // masters and the optimizer's state
  Tally useful;                        // FLOPs of one sequence, nothing computed again
};
ModelPlan plan_model(const RunConfig& config);

}  // namespace trireme
