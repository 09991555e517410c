#pragma once
#include <functional>

#include "trainer/engine/engine.h"
#include "trainer/loop/data_feed.h"

namespace trireme {

// Fills a micro-batch with the samples from `first` on.
using FillPart = std::function<Filled(const TokenBatch& part, std::uint64_t first)>;

// Fills this rank's micro-batches of the step that begins with sample `first`. Returns what all
// ranks together got. Collective.
Filled fill_step(Engine& engine, const RankGroups& groups, std::uint64_t first,
                 const FillPart& fill);
// The same of the source, or of an evaluation of it, counted without those left out; those from
// `end` on have nothing to predict.
Filled fill_step(Engine& engine, const RankGroups& groups, const data::SampleSource& source,
                 std::uint64_t first, std::uint64_t end = UINT64_MAX,
                 const data::LeftOut& left_out = {});

}  // namespace trireme
