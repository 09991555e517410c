#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

namespace trireme {

// The mean of the two middle values for an even count; 0 if empty.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace trireme
