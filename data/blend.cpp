#include "data/blend.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <utility>

#include "model/base/error.h"

namespace trireme::data {
namespace {

constexpr std::uint32_t kLongestExactPeriod = 1u << 16;
constexpr std::uint32_t kRoundedPeriod = 1u << 20;

// Weights normalized to a sum of one.
std::vector<double> scaled(std::span<const double> weights) {
  if (weights.empty()) throw ConfigError("data: there is no source to train on");
  if (weights.size() > std::numeric_limits<std::uint16_t>::max()) {
    throw ConfigError(say("data: ", weights.size(), " sources; at most 65535 can be blended"));
  }
  for (const double weight : weights) {
    if (std::isfinite(weight) && weight > 0) continue;
    throw ConfigError(say("data: a source has the weight ", weight,
                          "; weights must be positive numbers (leave out a source to skip it)"));
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> shares(weights.begin(), weights.end());
  for (double& share : shares) share /= sum;
  return shares;
}

bool fits(std::span<const double> shares, std::uint32_t period) {
  return std::all_of(shares.begin(), shares.end(), [&](double share) {
    const double slots = share * period;
    return slots > 0.5 && std::abs(slots - std::round(slots)) < 1e-9;
  });
}

}  // namespace

Blend::Blend(std::span<const double> weights) {
  choose_shares(weights);
  arrange();
}

void Blend::choose_shares(std::span<const double> weights) {
  const std::vector<double> shares = scaled(weights);
  std::uint32_t period = 1;
  while (period <= kLongestExactPeriod && !fits(shares, period)) ++period;
  if (period > kLongestExactPeriod) period = kRoundedPeriod;
  // Largest-remainder rounding, so that no share is off by more than one slot.
  std::vector<std::pair<double, std::size_t>> remainders;
  for (const double share : shares) {
    const double slots = std::max(1.0, share * period);
    const double whole = std::floor(slots + 1e-9);
    remainders.emplace_back(slots - whole, shares_.size());
    shares_.push_back(static_cast<std::uint32_t>(whole));
  }
  std::sort(remainders.begin(), remainders.end(), std::greater<>());
  std::uint64_t sum = std::accumulate(shares_.begin(), shares_.end(), std::uint64_t{0});
  for (std::size_t i = 0; sum < period; ++sum) ++shares_[remainders[i++ % shares_.size()].second];
  // Small weights were rounded up to one: take the surplus from the largest, where it matters
  // least.
  for (; sum > period; --sum) --*std::max_element(shares_.begin(), shares_.end());
  order_.resize(period);
}

void Blend::arrange() {
  const std::uint64_t period = order_.size();
  const std::size_t sources = shares_.size();
  using Timed = std::pair<std::uint64_t, std::size_t>;  // deadline, source
  using Queue = std::priority_queue<Timed, std::vector<Timed>, std::greater<>>;
  Queue to_release;
  Queue by_deadline;
  for (std::size_t i = 0; i < sources; ++i) to_release.emplace(0, i);
  std::vector<std::uint32_t> done(sources, 0);
  stride_ = std::max<std::uint64_t>(256, sources);
  for (std::uint64_t slot = 0; slot < period; ++slot) {
    if (slot % stride_ == 0) passed_.insert(passed_.end(), done.begin(), done.end());
    for (; !to_release.empty() && to_release.top().first <= slot; to_release.pop()) {
      const std::size_t i = to_release.top().second;
      by_deadline.emplace(((done[i] + 1) * period + shares_[i] - 1) / shares_[i], i);
    }
    const auto [deadline, source] = by_deadline.top();
    require(deadline > slot, "source ", source, " misses slot ", deadline, " of the blend");
    by_deadline.pop();
    order_[slot] = static_cast<std::uint16_t>(source);
    if (++done[source] < shares_[source]) {
      to_release.emplace(done[source] * period / shares_[source], source);
    }
  }
}

std::uint64_t Blend::count_within(std::size_t source, std::uint64_t slot) const {
  const std::uint64_t stride = slot / stride_;
  const auto first = order_.begin() + static_cast<std::ptrdiff_t>(stride * stride_);
  const auto last = order_.begin() + static_cast<std::ptrdiff_t>(slot);
  return passed_[stride * shares_.size() + source] +
         static_cast<std::uint64_t>(std::count(first, last, static_cast<std::uint16_t>(source)));
}

Blend::Pick Blend::operator()(std::uint64_t sample) const {
  const std::uint64_t slot = sample % period();
  const std::size_t source = order_[slot];
  return {source, sample / period() * shares_[source] + count_within(source, slot)};
}

std::vector<std::uint64_t> Blend::counts(std::uint64_t sample) const {
  std::vector<std::uint64_t> counts(shares_.size());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] = sample / period() * shares_[i] + count_within(i, sample % period());
  }
  return counts;
}

double Blend::share(std::size_t source) const {
  return static_cast<double>(shares_[source]) / static_cast<double>(period());
}

Mixture::Mixture(std::size_t sources, const std::vector<Stage>& stages) {
  std::vector<std::uint64_t> taken(sources, 0);
  for (const Stage& stage : stages) {
    if (!parts_.empty()) taken = counts(stage.first);
    require(parts_.empty() ? stage.first == 0 : stage.first > parts_.back().first,
            "a stage from sample ", stage.first);
    parts_.push_back({stage.first, stage.sources, Blend(stage.weights), taken});
  }
  require(!parts_.empty(), "a mixture without stages");
}

const Mixture::Part& Mixture::part_of(std::uint64_t sample) const {
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), sample,
                       [](std::uint64_t at, const Part& part) { return at < part.first; });
  return *(after - 1);
}

Blend::Pick Mixture::operator()(std::uint64_t sample) const {
  const Part& part = part_of(sample);
  const Blend::Pick pick = part.blend(sample - part.first);
  const std::size_t source = part.sources[pick.source];
  return {source, part.before[source] + pick.index};
}

std::vector<std::uint64_t> Mixture::counts(std::uint64_t sample) const {
  return counts(part_of(sample), sample);
}

std::vector<std::uint64_t> Mixture::counts(const Part& part, std::uint64_t sample) {
  std::vector<std::uint64_t> all = part.before;
  const std::vector<std::uint64_t> within = part.blend.counts(sample - part.first);
  for (std::size_t i = 0; i < within.size(); ++i) all[part.sources[i]] += within[i];
  return all;
}

}  // namespace trireme::data
