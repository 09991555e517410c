#include "trainer/verify/samples.h"

#include <algorithm>

#include "model/base/philox.h"
#include "model/tensor/host_tensor.h"
#include "trainer/loop/data_feed.h"

namespace trireme::verify {
namespace {

constexpr std::int32_t kNoTarget = -1;

}  // namespace

Samples::Samples(const RunConfig& config, bool synthetic) : config_(config) {
  if (!synthetic) source_.emplace(open_training_data(config));
}

std::int64_t Samples::fill(const Subject& subject, std::int64_t step,
                           std::optional<std::int64_t> only) const {
  Engine& engine = subject.engine();
  const EngineSpec& spec = engine.spec();
  double valid[] = {0};
  for (std::int64_t own = 0; own < spec.micro_batches; ++own) {
    const TokenBatch part = engine.batch().part(own * spec.micro_batch, spec.micro_batch);
    const std::int64_t number = engine.micro_batches().number(engine.data_rank(), own);
    valid[0] += static_cast<double>(fill_one(part, step, number));
    if (only && *only != number) std::fill(part.targets.begin(), part.targets.end(), kNoTarget);
  }
  Stream stream;
  subject.groups().data->all_reduce(stream, host_tensor(std::span(valid)), Reduce::kSum);
  return static_cast<std::int64_t>(valid[0]);
}

std::int64_t Samples::fill_one(const TokenBatch& part, std::int64_t step,
                               std::int64_t number) const {
  const std::int64_t first =
      (step - 1) * config_.training.global_batch_size + number * part.sequences;
  if (source_) return fill_batch(part, *source_, static_cast<std::uint64_t>(first)).valid;
  std::int64_t valid = 0;
  for (std::int64_t row = 0; row < part.sequences; ++row) {
    valid += make_up(part.part(row, 1), static_cast<std::uint64_t>(first + row));
  }
  return valid;
}

// The lengths and the targets that are left out are the same whatever the vocabulary.
std::int64_t Samples::make_up(const TokenBatch& row, std::uint64_t sample) const {
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
  return valid;
}

}  // namespace trireme::verify
