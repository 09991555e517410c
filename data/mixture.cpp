#include "data/mixture.h"

#include <algorithm>

#include "model/base/error.h"

namespace trireme::data {

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
