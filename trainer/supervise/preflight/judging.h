#pragma once
#include <string>
#include <utility>
#include <vector>

#include "trainer/supervise/preflight/check.h"

namespace trireme::preflight {

// Of an even number the mean of the two in the middle; 0 of none.
double median(std::vector<double> values);

// The places of values below `share` of their median.
std::vector<int> below_median(const std::vector<double>& values, double share);

// The value that most have, and the places of those that have another. Where several are as
// frequent it is the one that comes first.
struct Majority {
  std::string value;
  std::vector<int> others;
};
Majority majority(const std::vector<std::string>& values);

// One number or text of each rank's figures.
std::vector<double> numbers_of(const std::vector<Figures>& by_rank, const std::string& key);
std::vector<std::string> texts_of(const std::vector<Figures>& by_rank, const std::string& key);

}  // namespace trireme::preflight
