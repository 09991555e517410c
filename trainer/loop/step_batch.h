#pragma once
#include "trainer/engine/engine.h"
#include "trainer/loop/data_feed.h"

namespace trireme {

// Fills this rank's micro-batches of the step, or of the evaluation, that begins with sample
// `first`, counted without those left out; those from `end` on have nothing to predict. Returns
// what all ranks together got. Collective.
Filled fill_step(Engine& engine, const RankGroups& groups, const data::SampleSource& source,
                 std::uint64_t first, std::uint64_t end = UINT64_MAX,
                 const data::LeftOut& left_out = {});

}  // namespace trireme
