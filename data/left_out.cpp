#include "data/left_out.h"

#include <algorithm>

namespace trireme::data {

LeftOut::LeftOut(const std::vector<SampleRange>& ranges) {
  for (const SampleRange& range : ranges) add(range);
}

void LeftOut::add(SampleRange range) {
  if (range.first >= range.end) return;
  std::vector<SampleRange> all;
  for (const SampleRange& old : ranges_) {
    if (old.end < range.first || range.end < old.first) {
      all.push_back(old);
    } else {
      range = {std::min(range.first, old.first), std::max(range.end, old.end)};
    }
  }
  const auto after = std::find_if(all.begin(), all.end(),
                                  [&](const SampleRange& old) { return old.first > range.first; });
  all.insert(after, range);
  ranges_ = std::move(all);
}

std::uint64_t LeftOut::sample(std::uint64_t trained) const {
  std::uint64_t sample = trained;
  for (const SampleRange& range : ranges_) {
    if (range.first > sample) break;
    sample += range.end - range.first;
  }
  return sample;
}

LeftOut LeftOut::before(std::uint64_t sample) const {
  LeftOut before;
  for (const SampleRange& range : ranges_) before.add({range.first, std::min(range.end, sample)});
  return before;
}

LeftOut LeftOut::inside(SampleRange range) const {
  LeftOut inside;
  for (const SampleRange& own : ranges_) {
    inside.add({std::max(own.first, range.first), std::min(own.end, range.end)});
  }
  return inside;
}

std::uint64_t LeftOut::count() const {
  std::uint64_t count = 0;
  for (const SampleRange& range : ranges_) count += range.end - range.first;
  return count;
}

}  // namespace trireme::data
