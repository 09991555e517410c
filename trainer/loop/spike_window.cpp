#include "trainer/loop/spike_window.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace trireme {
namespace {

constexpr double kMinDeviation = 0.01;  // of the mean

}  // namespace

void SpikeWindow::add(double value) {
  values_.push_back(value);
  if (values_.size() > size_) values_.pop_front();
}

std::optional<SpikeWindow::Moments> SpikeWindow::moments() const {
  if (values_.size() < size_) return std::nullopt;
  const auto count = static_cast<double>(values_.size());
  const double mean = std::accumulate(values_.begin(), values_.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values_) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / (count - 1));
  return Moments{mean, std::max(deviation, kMinDeviation * std::abs(mean))};
}

double SpikeWindow::limit(double zscore) const {
  const auto known = moments();
  if (!known) return std::numeric_limits<double>::infinity();
  return known->mean + zscore * known->deviation;
}

std::optional<double> SpikeWindow::zscore(double value) const {
  const auto known = moments();
  if (!known) return std::nullopt;
  return (value - known->mean) / known->deviation;
}

}  // namespace trireme
