#pragma once
#include <cstdint>
#include <optional>

#include "data/sequencer.h"
#include "trainer/config/run_config.h"
#include "trainer/verify/subject.h"

namespace trireme::verify {

// What both layouts are trained on: the config's training data in a run's order, or random tokens
// in documents of random lengths.
class Samples {
 public:
  // Throws DataError unless the config's token files are there or `synthetic` is asked for.
  Samples(const RunConfig& config, bool synthetic);

  // Fills this rank's micro-batches of the step, counted from 1; returns the valid targets of all
  // data ranks. With `only`, the micro-batches of the step but this one have none. Collective over
  // the subject's data ranks.
  std::int64_t fill(const Subject& subject, std::int64_t step,
                    std::optional<std::int64_t> only = std::nullopt) const;
  // Fills one micro-batch of a step; returns its valid targets.
  std::int64_t fill_one(const TokenBatch& part, std::int64_t step, std::int64_t number) const;

 private:
  std::int64_t make_up(const TokenBatch& row, std::uint64_t sample) const;
  RunConfig config_;
  std::optional<data::SampleSource> source_;
};

}  // namespace trireme::verify
