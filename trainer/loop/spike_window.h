#pragma once
#include <cstddef>
#include <deque>
#include <optional>
#include <vector>

namespace trireme {

// The newest good values of a curve, to tell by their mean and deviation how far off the
// next one is. The deviation is taken for at least 1 % of the mean, or noise on a flat
// curve would count. Values are summed anew each time, in order: what a run has kept over
// a restart decides the same.
class SpikeWindow {
 public:
  explicit SpikeWindow(std::size_t size) : size_(size) {}

  void add(double value);
  // The value that is so many deviations above the mean; infinity until the window is full.
  double limit(double zscore) const;
  // Deviations above the mean; nothing until the window is full.
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
