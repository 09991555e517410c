#pragma once
#include <cstddef>
#include <vector>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// A curve reduced to fewer points.
struct ThinCurve {
  std::vector<std::int64_t> steps;
  std::vector<double> values;
  std::vector<double> means;  // mean of the finite values since the previous point; NaN if none
};

// Reduces a series to at most `points` (>= 16) points: the first and the last, and the minimum, the
// maximum and one non-finite value of every bucket. Buckets are spaced evenly both in steps and in
// their logarithm, for either axis. Shorter series are returned unchanged.
ThinCurve thin_out(const Series& series, std::size_t points = 2000);

}  // namespace trireme
