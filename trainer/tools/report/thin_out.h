#pragma once
#include <cstddef>
#include <vector>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// A curve with fewer points that looks like the whole one.
struct ThinCurve {
  std::vector<std::int64_t> steps;
  std::vector<double> values;
  std::vector<double> means;  // mean of the finite values since the point before; NaN if none
};

// At most `points` (>= 16) of the series' points: the first and the last, and the
// smallest, the largest and one non-finite value of every bucket. The buckets are taken
// twice, evenly in steps and evenly in their logarithm, so that the curve keeps
// its look on both axes. A series that is short enough comes back whole.
ThinCurve thin_out(const Series& series, std::size_t points = 2000);

}  // namespace trireme
