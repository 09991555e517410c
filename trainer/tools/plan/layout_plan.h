#pragma once
#include <cstdint>
#include <vector>

#include "trainer/config/run_config.h"
#include "trainer/engine/step_plan.h"

namespace trireme {

// Memory and work of one pipeline rank in a step. Ranks that differ along other axes are equal.
struct PipelinePlace {
  StepPlan step;
  std::size_t snapshot_bytes = 0;  // host memory of an asynchronous checkpoint

  // Free bytes needed on the device (for a CPU rank including the snapshot) and on the host.
  std::size_t device_bytes = 0, host_bytes = 0;
};

// A run of any number of ranks, planned by the code that sizes the trainer's arenas, for one rank
// per pipeline rank. Allocates nothing and does not communicate.
struct LayoutPlan {
  Device device;
  std::vector<PipelinePlace> places;  // by pipeline rank
  double issued_flops = 0;            // per step, over all ranks
  std::size_t most_device_bytes() const;
  std::size_t most_host_bytes() const;
};

// The data-parallel degrees of `config` are set (for_ranks). imagined_gpu() plans for a GPU that
// this machine does not have. Throws ConfigError if the layout is invalid.
LayoutPlan plan_layout(const RunConfig& config, Device device);
PipelinePlace plan_place(const RunConfig& config, Device device, int place);
// PipelinePlace::device_bytes of plan_place, in less time.
std::size_t device_bytes_of_place(const RunConfig& config, Device device, int place);

// Properties of the model that do not depend on the layout.
struct ModelPlan {
  std::int64_t parameters = 0;
  std::int64_t matrix_parameters = 0;  // used in matmuls, without embedding tables
  std::size_t checkpoint_bytes = 0;    // master weights and optimizer state
  Tally useful;                        // FLOPs of one sequence without recomputation
};
ModelPlan plan_model(const RunConfig& config);

}  // namespace trireme
