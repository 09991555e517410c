#include "trainer/supervise/preflight/check.h"

#include <algorithm>

#include "model/base/median.h"

namespace trireme::preflight {

std::vector<int> below_median(const std::vector<double>& values, double share) {
  const double least = share * median(values);
  std::vector<int> found;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < least) found.push_back(static_cast<int>(i));
  }
  return found;
}

Majority majority(const std::vector<std::string>& values) {
  Majority result;
  std::ptrdiff_t most = 0;
  for (const std::string& value : values) {
    const auto count = std::count(values.begin(), values.end(), value);
    if (count > most) {
      most = count;
      result.value = value;
    }
    if (2 * count > static_cast<std::ptrdiff_t>(values.size())) break;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] != result.value) result.others.push_back(static_cast<int>(i));
  }
  return result;
}

std::vector<double> numbers_of(const std::vector<Figures>& by_rank, const std::string& key) {
  std::vector<double> values;
  for (const Figures& figures : by_rank) values.push_back(figures.at(key).get<double>());
  return values;
}

std::vector<std::string> texts_of(const std::vector<Figures>& by_rank, const std::string& key) {
  std::vector<std::string> values;
  for (const Figures& figures : by_rank) values.push_back(figures.at(key).get<std::string>());
  return values;
}

}  // namespace trireme::preflight
