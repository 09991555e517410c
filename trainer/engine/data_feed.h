#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "data/left_out.h"
#include "data/sequencer.h"
#include "data/token_batch.h"
#include "trainer/config/run_config.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/rank_groups.h"

namespace trireme {

// The first sample of a step if none were left out. Stages of the data start at such samples, a
// function of the config alone.
std::uint64_t first_sample_of_step(const RunConfig& config, std::int64_t step);

// The training samples of a config, and its validation samples when it has any.
data::SampleSource open_training_data(const RunConfig& config);
std::optional<data::SampleSource> open_validation_data(const RunConfig& config,
                                                       std::int64_t stride = 0);

struct Filled {
  std::int64_t valid = 0;  // targets
  std::uint64_t hash = 0;  // the sum of the samples' sample_hash
};
// Fills the batch with samples [first, first + sequences) of `source`, not counting those left out;
// rows from `end` on have no targets and do not count.
Filled fill_batch(const data::TokenBatch& batch, const data::SampleSource& source,
                  std::uint64_t first, std::uint64_t end = UINT64_MAX,
                  const data::LeftOut& left_out = {});

// Fills a micro-batch with the samples from `first` on.
using FillMicroBatch = std::function<Filled(const data::TokenBatch& batch, std::uint64_t first)>;
// Fills this rank's micro-batches of the step that starts with sample `first`. Returns the sums
// over all ranks. Collective.
Filled fill_step(Engine& engine, const RankGroups& groups, std::uint64_t first,
                 const FillMicroBatch& fill);
// The same with fill_batch.
Filled fill_step(Engine& engine, const RankGroups& groups, const data::SampleSource& source,
                 std::uint64_t first, std::uint64_t end = UINT64_MAX,
                 const data::LeftOut& left_out = {});

struct Evaluation {
  double loss = 0;  // nats, mean over the valid targets
  std::int64_t valid_tokens = 0;
};
// How to evaluate a batch of `samples`: fill it with samples [first, end) of the source, and sum
// the loss over its valid targets, on all ranks together.
struct Evaluator {
  std::uint64_t samples = 0;
  std::function<std::int64_t(std::uint64_t first, std::uint64_t end)> fill;  // valid targets
  std::function<double()> summed_loss;
};
// The mean loss over samples [0, samples) of `source`, or over all it has if fewer.
Evaluation evaluate(const data::SampleSource& source, std::uint64_t samples,
                    const Evaluator& evaluator);

// A loss per token as bits per byte of text; nothing when the source does not know its bytes.
std::optional<double> bits_per_byte(double loss, const data::SampleSource& source);

}  // namespace trireme
