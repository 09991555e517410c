#pragma once
#include <utility>
#include <vector>

#include "trainer/tools/plan/estimate/estimate.h"
#include "trainer/tools/plan/search/layouts.h"

namespace trireme {

// A valid layout that fits, with its predicted step.
struct RankedLayout {
  RunConfig config;
  StepEstimate estimate;
  double bytes = 0;  // of the largest rank
};

inline constexpr std::size_t kBestShapes = 10;

// The kBestShapes fastest shapes so far, each with its fastest layout.
class BestShapes {
 public:
  // Seconds that a layout of this shape must be below to be listed.
  double limit_of(const LayoutShape& shape) const;
  // In place of a slower layout of its shape, or of the slowest. Returns how many it displaced.
  int add(RankedLayout found);
  // The fastest first.
  std::vector<RankedLayout> take() { return std::move(best_); }

 private:
  std::vector<RankedLayout>::const_iterator find(const LayoutShape& shape) const;

  std::vector<RankedLayout> best_;
};

}  // namespace trireme
