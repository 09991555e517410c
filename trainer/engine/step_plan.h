#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "parallel/comm/planned_communicator.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/engine/memory_plan.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/engine/state_bytes.h"

namespace trireme {

// What a rank's step takes and computes, learned from an engine on a planning stream.
struct StepPlan {
  MemoryPlan memory;
  StateBytes state;
  Tally issued;                 // FLOPs of a full step's gradients as executed, with recomputation
  std::int64_t parameters = 0;  // of the whole model
  // Of masters and optimizer state that this rank owns, and of those that no lower rank owns too.
  std::size_t state_bytes = 0, unique_state_bytes = 0;
  std::vector<int> stages;                     // of this rank, ascending
  std::map<int, int> pool_of_stage;            // MemoryPlan::in_flight of each of them
  std::vector<std::int64_t> layers_per_stage;  // of all stages
  Traffic sent;                                // in a full step, if the groups are planned
};
StepPlan plan_step(const EngineSpec& spec, const RankGroups& groups, Device device);

struct EnginePlan : StepPlan {
  Tally useful;  // FLOPs of a full step without recomputation
};
EnginePlan plan_engine(const EngineSpec& spec, const RankGroups& groups, Device device);

// The memory of a run: of each class, the most that one of its sequence lengths takes.
MemoryPlan plan_memory(const RunConfig& config, const RankGroups& groups, Device device);

// The plan of a rank of a run that does not exist yet, as the trainer would make it, with planned
// groups: a step of the first sequence length, and the memory of the run. The config's data degrees
// are settled; `device` may be an imagined GPU. Throws ConfigError if the layout is impossible.
StepPlan plan_of_rank(const RunConfig& config, Device device, int rank);

// The memory of plan_of_rank's plan, in less time: without the rest of it, and without
// micro-batches that take the memory of others.
MemoryPlan memory_of_rank(const RunConfig& config, Device device, int rank);

// Throws Error with the classes that differ unless plan_of_rank foretells `plan`, which a rank in
// `groups` made for itself. On a GPU communication buffers are not compared: they depend on
// whether ranks share a GPU.
void require_foretold(const RunConfig& config, const RankGroups& groups, Device device,
                      const MemoryPlan& plan);

}  // namespace trireme
