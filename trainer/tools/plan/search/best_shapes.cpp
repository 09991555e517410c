#include "trainer/tools/plan/search/best_shapes.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace trireme {

double BestShapes::limit_of(const LayoutShape& shape) const {
  const auto same = find(shape);
  if (same != best_.end()) return same->estimate.seconds;
  return best_.size() < kBestShapes ? std::numeric_limits<double>::infinity()
                                    : best_.back().estimate.seconds;
}

int BestShapes::add(RankedLayout found) {
  int displaced = 0;
  const auto same = find(shape_of(found.config.parallelism));
  if (same != best_.end()) {
    best_.erase(same);
    ++displaced;
  }
  const auto at = std::upper_bound(
      best_.begin(), best_.end(), found.estimate.seconds,
      [](double seconds, const RankedLayout& other) { return seconds < other.estimate.seconds; });
  best_.insert(at, std::move(found));
  if (best_.size() > kBestShapes) {
    best_.pop_back();
    ++displaced;
  }
  return displaced;
}

std::vector<RankedLayout>::const_iterator BestShapes::find(const LayoutShape& shape) const {
  return std::ranges::find_if(
      best_, [&](const RankedLayout& one) { return shape_of(one.config.parallelism) == shape; });
}

}  // namespace trireme
