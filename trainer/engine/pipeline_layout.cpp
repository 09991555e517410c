#include "trainer/engine/pipeline_layout.h"

#include <numeric>

#include "parallel/pipeline/balance.h"
#include "parallel/pipeline/registry.h"
#include "trainer/engine/step_ops.h"

namespace trireme {
namespace {

// Multiply-adds per token of a forward: a sixth of the FLOPs of forward and backward. The embedding
// issues none.
LayerCosts layer_costs(const EngineSpec& spec) {
  EngineSpec alone;
  alone.model = spec.model;
  alone.training.seq_len = spec.balanced_at > 0 ? spec.balanced_at : spec.training.seq_len;
  const StepOps ops = record_step(alone, {});
  const double scale = 6 * static_cast<double>(alone.training.seq_len);
  LayerCosts costs{.blocks = {}, .embedding = 0, .head = ops.first.flops() / scale};
  for (std::int64_t layer = 0; layer < alone.model.num_hidden_layers; ++layer) {
    costs.blocks.push_back(ops.block(layer).flops() / scale);
  }
  return costs;
}

Schedule schedule_of(const EngineSpec& spec, std::int64_t micro_batches, int ranks) {
  Schedule schedule =
      make_schedule(spec.parallelism.schedule,
                    {.ranks = ranks,
                     .micro_batches = static_cast<int>(micro_batches),
                     .virtual_stages = static_cast<int>(spec.parallelism.virtual_stages)});
  // The next micro-batch would add to a layer's gradients before these are reduced.
  if ((spec.job.reproducible || spec.parallelism.zero >= 2) && defers_weight_gradients(schedule)) {
    throw on_all_ranks(ConfigError(
        say("parallelism.schedule = \"", spec.parallelism.schedule,
            "\" defers weight gradients, but job.reproducible and zero = 2 and 3 reduce them "
            "during each micro-batch's backward; choose another schedule")));
  }
  return schedule;
}

std::vector<Schedule> schedules_of(const EngineSpec& spec, int ranks) {
  std::vector<Schedule> schedules;
  for (const std::int64_t fewer : spec.fewer_micro_batches) {
    schedules.push_back(schedule_of(spec, fewer, ranks));
  }
  schedules.push_back(schedule_of(spec, spec.micro_batches, ranks));
  return schedules;
}

}  // namespace

std::vector<std::int64_t> divide_layers(const EngineSpec& spec, int stages) {
  const std::vector<std::int64_t>& list = spec.parallelism.layers_per_stage;
  if (list.empty()) return balance_blocks(layer_costs(spec), stages);
  return check_blocks_per_stage(list, spec.model.num_hidden_layers, stages);
}

PipelineLayout::PipelineLayout(const EngineSpec& spec, const RankGroups& groups)
    : schedules(schedules_of(spec, groups.pp_forward->size())),
      layers_per_stage(divide_layers(spec, full().stages)),
      stages(stages_of_rank(full(), groups.pp_forward->rank())),
      slots(divide_slots(schedules, groups.pp_forward->rank(), layers_per_stage)) {}

std::vector<BlockRange> PipelineLayout::blocks() const {
  std::vector<BlockRange> blocks;
  for (const int stage : stages) {
    const std::int64_t first = std::accumulate(layers_per_stage.begin(),
                                               layers_per_stage.begin() + stage, std::int64_t{0});
    blocks.push_back({first, first + layers_of(stage)});
  }
  return blocks;
}

}  // namespace trireme
