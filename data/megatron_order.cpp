#include "data/megatron_order.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "model/base/error.h"

namespace trireme::data {
namespace {

constexpr double kSurplus = 0.005;  // Megatron-LM's default mid_level_dataset_surplus

// Adds in the order of numpy.sum, for identical bits.
double numpy_sum(std::span<const double> values) {
  const std::size_t n = values.size();
  if (n < 8) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum;
  }
  if (n <= 128) {
    double sums[8];
    for (std::size_t i = 0; i < 8; ++i) sums[i] = values[i];
    std::size_t i = 8;
    for (; i + 8 <= n; i += 8) {
      for (std::size_t k = 0; k < 8; ++k) sums[k] += values[i + k];
    }
    double sum =
        ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    for (; i < n; ++i) sum += values[i];
    return sum;
  }
  const std::size_t half = n / 2 - n / 2 % 8;
  return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
}

std::vector<double> normalized(std::span<const double> weights) {
  const double sum = numpy_sum(weights);
  std::vector<double> shares(weights.begin(), weights.end());
  for (double& share : shares) share /= sum;
  return shares;
}

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();

MegatronPart part_of(const MegatronOrder::Source& source) {
  MegatronPart part;
  part.sizes.reserve(source.last - source.first);
  for (std::int64_t s = source.first; s < source.last; ++s) {
    const std::int64_t size = source.stream->sequence_size(s);
    if (size > kMost) {
      throw DataError(
          say(source.stream->token_file(), ": document ", s, " has ", size,
              " tokens, more than Megatron-LM's order can count: use data.order = \"trireme\""));
    }
    part.sizes.push_back(static_cast<std::int32_t>(size));
    part.tokens += size;
  }
  return part;
}

}  // namespace

MegatronBlend::MegatronBlend(std::span<const double> weights, std::uint64_t samples) {
  if (weights.size() >= 32767) {
    throw ConfigError(say("data: ", weights.size(), " sources; Megatron-LM blends at most 32766"));
  }
  const std::vector<double> once = normalized(weights);
  std::uint64_t size = 0;
  for (const double share : once) {
    const double target = std::ceil(static_cast<double>(samples) * share);
    size += static_cast<std::uint64_t>(target);
    built_.push_back(static_cast<std::uint64_t>(std::ceil(target * (1 + kSurplus))));
  }
  const std::vector<double> shares = normalized(once);  // BlendedDataset normalizes twice
  of_lap_.assign(shares.size(), 0);
  source_.reserve(size);
  index_.reserve(size);
  for (std::uint64_t sample = 0; sample < size; ++sample) {
    const double due = std::max(static_cast<double>(sample), 1.0);
    const auto behind = [&](std::size_t i) {
      return shares[i] * due - static_cast<double>(of_lap_[i]);
    };
    std::size_t most = 0;
    for (std::size_t i = 1; i < shares.size(); ++i) {
      if (behind(i) > behind(most)) most = i;
    }
    source_.push_back(static_cast<std::uint16_t>(most));
    index_.push_back(static_cast<std::int64_t>(of_lap_[most]++));
  }
}

Blend::Pick MegatronBlend::operator()(std::uint64_t sample) const {
  const std::uint64_t slot = sample % size();
  const std::size_t source = source_[slot];
  return {source, sample / size() * of_lap_[source] + static_cast<std::uint64_t>(index_[slot])};
}

std::vector<std::uint64_t> MegatronBlend::counts(std::uint64_t sample) const {
  std::vector<std::uint64_t> counts = counts_within(sample % size());
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += sample / size() * of_lap_[i];
  return counts;
}

// A dataset's last sample before the slot gives the number of its samples.
std::vector<std::uint64_t> MegatronBlend::counts_within(std::uint64_t slot) const {
  std::vector<std::uint64_t> counts(of_lap_.size(), 0);
  std::size_t unknown = counts.size();
  for (std::uint64_t at = slot; at-- > 0 && unknown > 0;) {
    std::uint64_t& count = counts[source_[at]];
    if (count > 0) continue;
    count = static_cast<std::uint64_t>(index_[at]) + 1;
    --unknown;
  }
  return counts;
}

MegatronOrder::MegatronOrder(std::vector<Source> sources, const Options& how)
    : sources_(std::move(sources)) {
  if (how.samples > static_cast<std::uint64_t>(kMost)) {
    throw ConfigError(say("data.order = \"megatron\": an order of ", how.samples,
                          " samples; this version counts up to ", kMost,
                          ": give a smaller data.order_samples, or use data.order = \"trireme\""));
  }
  if (sources_.size() > 1) {
    std::vector<double> weights;
    for (const Source& source : sources_) weights.push_back(source.weight);
    blend_.emplace(weights, how.samples);
  }
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const std::uint64_t samples = blend_ ? blend_->samples_of(i) : how.samples;
    indices_.emplace_back(part_of(sources_[i]), how.seq_len, samples, how.seed);
  }
}

Origin MegatronOrder::origin(std::uint64_t sample) const {
  const Blend::Pick pick = blend_ ? (*blend_)(sample) : Blend::Pick{0, sample};
  const MegatronIndices& indices = indices_[pick.source];
  return {.source = pick.source,
          .index = pick.index,
          .epoch = pick.index / indices.samples(),
          .window = indices.row(pick.index % indices.samples())};
}

std::vector<TokenRun> MegatronOrder::runs(const Origin& from) const {
  const MegatronIndices& indices = indices_[from.source];
  const Source& source = sources_[from.source];
  const MegatronIndices::Place begin = indices.place(from.window);
  const MegatronIndices::Place end = indices.place(from.window + 1);
  std::vector<TokenRun> runs;
  for (std::int32_t at = begin.at; at <= end.at; ++at) {
    const std::int64_t sequence = source.first + indices.documents()[at];
    const std::int64_t first = at == begin.at ? begin.offset : 0;
    const std::int64_t stop =
        at == end.at ? std::int64_t{end.offset} + 1 : source.stream->sequence_size(sequence);
    if (stop > first)
      runs.push_back({source.stream->sequence_begin(sequence) + first, stop - first});
  }
  return runs;
}

std::vector<std::uint64_t> MegatronOrder::consumed(std::uint64_t sample) const {
  if (blend_) return blend_->counts(sample);
  return {sample};
}

}  // namespace trireme::data
