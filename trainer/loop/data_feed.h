#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "data/left_out.h"
#include "data/sequencer.h"
#include "trainer/config/run_config.h"
#include "trainer/engine/token_batch.h"

namespace trireme {

// Where a step begins in the training order, were no sample left out: so are the stages of the
// data placed in it, which makes it a function of the config alone.
std::uint64_t first_sample_of_step(const RunConfig& config, std::int64_t step);

// The training samples of a config, and its validation samples when it has any.
data::SampleSource open_training_data(const RunConfig& config);
std::optional<data::SampleSource> open_validation_data(const RunConfig& config);

struct Filled {
  std::int64_t valid = 0;  // targets
  std::uint64_t hash = 0;  // the sum of the samples' sample_hash
};
// Fills the batch with samples [first, first + sequences) of `source`, counted without
// those left out; rows from `end` on have nothing to predict, and do not count.
Filled fill_batch(const TokenBatch& batch, const data::SampleSource& source, std::uint64_t first,
                  std::uint64_t end = UINT64_MAX, const data::LeftOut& left_out = {});

struct Evaluation {
  double loss = 0;  // nats, mean over the valid targets
  std::int64_t valid_tokens = 0;
};
// How a batch of `samples` is filled with those from a first to an end of the source, and its
// loss, summed over its valid targets, is found; all ranks' together.
struct Evaluator {
  std::uint64_t samples = 0;
  std::function<std::int64_t(std::uint64_t first, std::uint64_t end)> fill;  // valid targets
  std::function<double()> summed_loss;
};
// The mean loss over samples [0, samples) of `source`, or over all it has if that is less.
Evaluation evaluate(const data::SampleSource& source, std::uint64_t samples,
                    const Evaluator& evaluator);

// A loss per token as bits per byte of text; nothing when the source cannot tell.
std::optional<double> bits_per_byte(double loss, const data::SampleSource& source);

}  // namespace trireme
