#pragma once
#include "trainer/engine/engine.h"

namespace trireme {

// What a rank of a run takes and does in a step, before there is such a run: by the very walk that
// sizes the trainer's arenas, with groups that are only planned. `config` is for_ranks: its data
// degrees are settled. An imagined GPU plans for one that is not here. Throws ConfigError where
// the layout cannot be.
StepPlan plan_of_rank(const RunConfig& config, Device device, int rank);

// Throws Error with the classes that differ unless a rank in `groups`, which has planned `plan`
// for itself, would have been told the same beforehand. On a GPU without the messages' buffers:
// ranks that share one have others than those with one each.
void require_foretold(const RunConfig& config, const RankGroups& groups, Device device,
                      const MemoryPlan& plan);

// "weights 100 planned, 120 used; ...", of two that differ.
std::string differences(const MemoryPlan& planned, const MemoryPlan& used);

}  // namespace trireme
