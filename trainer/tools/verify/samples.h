#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "data/sequencer.h"
#include "trainer/config/run_config.h"
#include "trainer/loop/data_feed.h"
#include "trainer/tools/verify/subject.h"

namespace trireme::verify {

// What both layouts are trained on: the config's training data in a run's order, or random tokens
// in documents of random lengths.
class Samples {
 public:
  // Throws DataError unless the config's token files are there or `synthetic` is asked for.
  Samples(const RunConfig& config, bool synthetic);

  // The first sample of a step, counted from 1.
  std::uint64_t first_of(std::int64_t step) const;
  // Fills this rank's micro-batches as a run does, those of the step that begins with sample
  // `first`. Returns what all data ranks together got, as the next does. Both are collective over
  // the subject's data ranks.
  Filled fill_as_a_run(const Subject& subject, std::uint64_t first) const;
  // By the micro-batches' numbers alone. With `only`, the others have no targets then.
  Filled fill(const Subject& subject, std::int64_t step,
              std::optional<std::int64_t> only = std::nullopt) const;
  // What a step is, whoever reads which of its samples.
  Filled whole_step(std::int64_t step) const;
  // Of a micro-batch's rows, the samples they are; kUnknown: none near the step.
  static constexpr std::int64_t kUnknown = -1;
  std::vector<std::int64_t> samples_in(const TokenBatch& batch, std::int64_t step) const;
  // Fills it with the samples from `first` on.
  Filled fill_part(const TokenBatch& part, std::uint64_t first) const;

 private:
  Filled make_up(const TokenBatch& row, std::uint64_t sample) const;
  RunConfig config_;
  std::optional<data::SampleSource> source_;
};

}  // namespace trireme::verify
