#include "trainer/tools/verify/samples.h"

#include <algorithm>

#include "data/token_batch.h"
#include "model/base/philox.h"
#include "trainer/config/sequence_length.h"

namespace trireme::verify {
namespace {

constexpr std::int32_t kNoTarget = -1;

}  // namespace

Samples::Samples(const RunConfig& config, bool synthetic) : config_(config) {
  if (synthetic) return;
  // Of the sequences that the subject is built for.
  source_.emplace(open_training_data(with_length(config, sequence_lengths(config).front())));
}

std::uint64_t Samples::first_of(std::int64_t step) const {
  return static_cast<std::uint64_t>((step - 1) * config_.training.global_batch_size);
}

Filled Samples::fill_as_a_run(const Subject& subject, std::uint64_t first) const {
  return fill_step(
      subject.engine(), subject.groups(), first,
      [&](const data::TokenBatch& part, std::uint64_t sample) { return fill_part(part, sample); });
}

Filled Samples::fill(const Subject& subject, std::int64_t step,
                     std::optional<std::int64_t> only) const {
  const Filled filled = fill_as_a_run(subject, first_of(step));
  Engine& engine = subject.engine();
  const EngineSpec& spec = engine.spec();
  for (std::int64_t own = 0; only && own < spec.micro_batches; ++own) {
    if (*only == engine.micro_batches().number(engine.data_rank(), own)) continue;
    const data::TokenBatch part =
        engine.batch().part(own * spec.training.local_batch_size, spec.training.local_batch_size);
    std::ranges::fill(part.targets, kNoTarget);
  }
  return filled;
}

Filled Samples::whole_step(std::int64_t step) const {
  const data::SequenceBuffer row(config_.training.seq_len);
  Filled filled;
  for (std::int64_t i = 0; i < config_.training.global_batch_size; ++i) {
    const Filled one = fill_part(row.batch(), first_of(step) + i);
    filled.valid += one.valid;
    filled.hash += one.hash;
  }
  return filled;
}

std::vector<std::int64_t> Samples::samples_in(const data::TokenBatch& batch,
                                              std::int64_t step) const {
  const std::int64_t size = config_.training.global_batch_size;
  const auto begin = static_cast<std::int64_t>(first_of(step));
  const data::SequenceBuffer row(config_.training.seq_len);
  std::vector<std::int64_t> found(batch.sequences, kUnknown);
  for (std::int64_t sample = std::max<std::int64_t>(begin - size, 0); sample < begin + 2 * size;
       ++sample) {
    fill_part(row.batch(), sample);
    for (std::int64_t i = 0; i < batch.sequences; ++i) {
      const data::TokenBatch there = batch.part(i, 1);
      if (std::ranges::equal(there.ids, row.batch().ids) &&
          std::ranges::equal(there.targets, row.batch().targets)) {
        found[i] = sample;
      }
    }
  }
  return found;
}

Filled Samples::fill_part(const data::TokenBatch& part, std::uint64_t first) const {
  if (source_) return fill_batch(part, *source_, first);
  Filled filled;
  for (std::int64_t row = 0; row < part.sequences; ++row) {
    const Filled one = fill_random(part.part(row, 1), first + row);
    filled.valid += one.valid;
    filled.hash += one.hash;
  }
  return filled;
}

// Document lengths and masked targets do not depend on the vocabulary.
Filled Samples::fill_random(const data::TokenBatch& row, std::uint64_t sample) const {
  constexpr std::uint32_t kShortest = 5, kLengths = 60, kLeftOut = 16;
  const std::uint64_t key =
      random_key(static_cast<std::uint64_t>(config_.job.seed), "verify/tokens");
  const auto vocab = static_cast<std::uint32_t>(config_.model.vocab_size);
  const auto token = [&](std::size_t i) {
    return static_cast<std::int32_t>(philox(key, sample, i)[0] % vocab);
  };
  std::int32_t start = 0, end = 0;
  std::int64_t valid = 0;
  for (std::size_t i = 0; i < row.ids.size(); ++i) {
    const auto words = philox(key, sample, i);
    const auto place = static_cast<std::int32_t>(i);
    if (place == end) {
      start = place;
      end = start + static_cast<std::int32_t>(kShortest + words[1] % kLengths);
    }
    const bool counts = words[2] % kLeftOut != 0 && place + 1 < end;
    row.ids[i] = token(i);
    row.targets[i] = counts ? token(i + 1) : kNoTarget;
    row.document_start[i] = config_.data.document_mask ? start : 0;
    row.positions[i] = place - row.document_start[i];
    valid += counts;
  }
  return {.valid = valid, .hash = data::sample_hash(sample, row.ids, row.targets)};
}

}  // namespace trireme::verify
