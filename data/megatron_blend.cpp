#include "data/megatron_blend.h"

#include <algorithm>
#include <cmath>

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

}  // namespace trireme::data
