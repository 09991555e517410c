#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "data/sequencer.h"
#include "trainer/config/run_config.h"
#include "trainer/engine/data_feed.h"
#include "trainer/tools/verify/subject.h"

namespace trireme::verify {

// Training data of both layouts: the config's data in training order, or random tokens in documents
// of random lengths.
class Samples {
 public:
  // Throws DataError if the token files cannot be opened, unless `synthetic`.
  Samples(const RunConfig& config, bool synthetic);

  // The first sample of a step, counted from 1.
  std::uint64_t first_of(std::int64_t step) const;
  // Fills this rank's micro-batches of the step that begins with sample `first`, with the code of a
  // training run. Returns totals over all data ranks, as does fill(). Both are collective over the
  // subject's data ranks.
  Filled fill_as_a_run(const Subject& subject, std::uint64_t first) const;
  // Fills the micro-batches of a step. With `only`, other micro-batches have no targets.
  Filled fill(const Subject& subject, std::int64_t step,
              std::optional<std::int64_t> only = std::nullopt) const;
  // Totals of a step, computed from all of its samples on this rank.
  Filled whole_step(std::int64_t step) const;
  // Sample number of each row of a batch; kUnknown: no sample near the step.
  static constexpr std::int64_t kUnknown = -1;
  std::vector<std::int64_t> samples_in(const data::TokenBatch& batch, std::int64_t step) const;
  // Fills `part` with consecutive samples from `first` on.
  Filled fill_part(const data::TokenBatch& part, std::uint64_t first) const;

 private:
  Filled fill_random(const data::TokenBatch& row, std::uint64_t sample) const;
  RunConfig config_;
  std::optional<data::SampleSource> source_;
};

}  // namespace trireme::verify
