#include "trainer/config/batch_size.h"

#include <algorithm>
#include <limits>

#include "model/base/error.h"

namespace trireme {
namespace {

// A run of steps [first, end) of one size.
struct StepRange {
  std::int64_t first, end, sequences;
};

constexpr std::int64_t kEndless = std::numeric_limits<std::int64_t>::max();

// Of a ramp that rises from step 1 on; another, which the rules refuse, counts as far as it does.
std::vector<StepRange> stretches(const TrainingConfig& training) {
  std::vector<StepRange> all;
  const std::vector<BatchSize>& ramp = training.rampup_batch_size;
  std::int64_t first = 1;
  for (std::size_t i = 0; i < ramp.size(); ++i) {
    const std::int64_t end = i + 1 < ramp.size() ? ramp[i + 1].from_step : kEndless;
    if (end <= first) continue;
    all.push_back({first, end, ramp[i].sequences});
    first = end;
  }
  if (all.empty()) all.push_back({1, kEndless, training.global_batch_size});
  all.back().end = kEndless;
  return all;
}

}  // namespace

std::int64_t sequences_of_step(const TrainingConfig& training, std::int64_t step) {
  std::int64_t sequences = 0;
  for (const StepRange& stretch : stretches(training)) {
    if (stretch.first <= std::max<std::int64_t>(step, 1)) sequences = stretch.sequences;
  }
  return sequences;
}

std::int64_t sequences_before_step(const TrainingConfig& training, std::int64_t step) {
  std::int64_t sequences = 0;
  for (const StepRange& stretch : stretches(training)) {
    if (stretch.first >= step) break;
    sequences += (std::min(step, stretch.end) - stretch.first) * stretch.sequences;
  }
  return sequences;
}

std::int64_t step_of_sequence(const TrainingConfig& training, std::int64_t place) {
  for (const StepRange& stretch : stretches(training)) {
    const std::int64_t steps = stretch.end - stretch.first, into = place / stretch.sequences;
    if (into < steps) return stretch.first + into;
    place -= steps * stretch.sequences;
  }
  return kEndless;
}

std::vector<std::int64_t> batch_sizes(const TrainingConfig& training) {
  std::vector<std::int64_t> sizes{training.global_batch_size};
  for (const BatchSize& size : training.rampup_batch_size) sizes.push_back(size.sequences);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

std::string ramp_text(const TrainingConfig& training) {
  std::string text;
  for (const BatchSize& size : training.rampup_batch_size) {
    text += say(text.empty() ? "sequences in a step: " : ", ", size.sequences, " from step ",
                size.from_step, " on");
  }
  return text;
}

namespace {

std::int64_t microbatches_of(const RunConfig& config, std::int64_t sequences) {
  return sequences / config.training.local_batch_size / data_ranks(config.parallelism);
}

}  // namespace

std::int64_t micro_batches_of_step(const RunConfig& config, std::int64_t step) {
  return microbatches_of(config, sequences_of_step(config.training, step));
}

std::vector<std::int64_t> micro_batch_counts(const RunConfig& config) {
  std::vector<std::int64_t> counts = batch_sizes(config.training);
  for (std::int64_t& count : counts) count = microbatches_of(config, count);
  return counts;
}

}  // namespace trireme
