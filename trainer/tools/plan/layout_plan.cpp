#include "trainer/tools/plan/layout_plan.h"

#include <algorithm>

#include "trainer/engine/engine_spec.h"
#include "trainer/engine/fit.h"
#include "trainer/engine/step_plan.h"

namespace trireme {

std::size_t LayoutPlan::most_device_bytes() const {
  std::size_t most = 0;
  for (const PipelinePlace& place : places) most = std::max(most, place.device_bytes);
  return most;
}

std::size_t LayoutPlan::most_host_bytes() const {
  std::size_t most = 0;
  for (const PipelinePlace& place : places) most = std::max(most, place.host_bytes);
  return most;
}

namespace {

// The first of those of a pipeline rank.
int first_rank_of(const ParallelismConfig& layout, int place) {
  return place * static_cast<int>(world_size(layout) / layout.pipeline);
}

}  // namespace

PipelinePlace plan_place(const RunConfig& config, Device device, int place) {
  PipelinePlace planned{.step =
                            plan_of_rank(config, device, first_rank_of(config.parallelism, place))};
  planned.snapshot_bytes = config.checkpoint.async ? snapshot_bytes(planned.step.memory) : 0;
  planned.device_bytes = needed_bytes(config, planned.step.memory, device);
  planned.host_bytes = needed_host_bytes(config, planned.step.memory, device);
  return planned;
}

std::size_t device_bytes_of_place(const RunConfig& config, Device device, int place) {
  return needed_bytes(
      config, memory_of_rank(config, device, first_rank_of(config.parallelism, place)), device);
}

LayoutPlan plan_layout(const RunConfig& config, Device device) {
  const ParallelismConfig& layout = config.parallelism;
  LayoutPlan plan{.device = device, .places = {}};
  const std::int64_t ranks_of_place = world_size(layout) / layout.pipeline;
  for (int place = 0; place < layout.pipeline; ++place) {
    const Tally& issued = plan.places.emplace_back(plan_place(config, device, place)).step.issued;
    plan.issued_flops +=
        static_cast<double>(ranks_of_place) * (issued.matmul + issued.attention_causal);
  }
  return plan;
}

ModelPlan plan_model(const RunConfig& config) {
  EngineSpec spec = engine_spec(config);
  spec.parallelism = {};
  spec.parallelism.zero = 0;
  spec.activation_checkpoint = {};
  spec.job.reproducible = false;
  spec.training.local_batch_size = spec.micro_batches = 1;
  spec.fewer_micro_batches = {};
  const StepPlan step = plan_step(spec, RankGroups(), {});
  return {.parameters = step.parameters,
          .matrix_parameters = static_cast<std::int64_t>(
              step.issued.matmul / (6 * static_cast<double>(spec.training.seq_len))),
          .checkpoint_bytes = step.state_bytes,
          .useful = step.issued};
}

}  // namespace trireme
