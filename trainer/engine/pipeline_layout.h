#pragma once
#include <cstdint>
#include <vector>

#include "parallel/pipeline/slots.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/engine/rank_groups.h"

namespace trireme {

// Consecutive blocks [first, end) of the model.
struct BlockRange {
  std::int64_t first = 0, end = 0;
};

// The layers of each of `stages`: parallelism.layers_per_stage, or balanced by their cost. Throws
// ConfigError if the layers cannot be divided so.
std::vector<std::int64_t> divide_layers(const EngineSpec& spec, int stages);

// The pipeline schedules of a run and what this rank has of them. Throws ConfigError if the spec's
// schedule, layers or ranks do not go together.
struct PipelineLayout {
  PipelineLayout(const EngineSpec& spec, const RankGroups& groups);

  std::vector<Schedule> schedules;             // of shorter steps, then of full steps
  std::vector<std::int64_t> layers_per_stage;  // of all stages
  std::vector<int> stages;                     // of this rank, ascending
  SlotPools slots;                             // of this rank's micro-batches in flight

  const Schedule& full() const { return schedules.back(); }
  std::int64_t layers_of(int stage) const { return layers_per_stage[stage]; }
  std::vector<BlockRange> blocks() const;  // of each of this rank's stages
};

}  // namespace trireme
