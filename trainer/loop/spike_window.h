#pragma once
#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

namespace trireme {

// The newest accepted values of a curve, and the z-score of the next one. The standard deviation is
// floored at 1 % of the mean, so that noise on a flat curve is no spike. The values are summed anew
// each time, in order, so that a resumed run decides the same.
class SpikeWindow {
 public:
  explicit SpikeWindow(std::size_t size) : size_(size) {}

  void add(double value);
  // The value with this z-score; infinity until the window is full.
  double limit(double zscore) const;
  // Nothing until the window is full.
  std::optional<double> zscore(double value) const;

  std::vector<double> values() const { return {values_.begin(), values_.end()}; }  // oldest first

 private:
  struct Moments {
    double mean, deviation;
  };
  std::optional<Moments> moments() const;

  std::size_t size_;
  std::deque<double> values_;
};

}  // namespace trireme
