#pragma once
#include <string>
#include <utility>
#include <vector>

#include "trainer/supervise/preflight/check.h"

namespace trireme::preflight {

// Median; the mean of the two middle values for an even count; 0 if empty.
double median(std::vector<double> values);

// Indices of values below `share` times the median.
std::vector<int> below_median(const std::vector<double>& values, double share);

// The most frequent value and the indices of all other values. On a tie, the first of the most
// frequent values.
struct Majority {
  std::string value;
  std::vector<int> others;
};
Majority majority(const std::vector<std::string>& values);

// One number or string of each rank's measurements.
std::vector<double> numbers_of(const std::vector<Figures>& by_rank, const std::string& key);
std::vector<std::string> texts_of(const std::vector<Figures>& by_rank, const std::string& key);

}  // namespace trireme::preflight
