#pragma once
#include <cstdint>
#include <deque>
#include <optional>

#include "trainer/telemetry/step_metrics.h"

namespace trireme {

// What the recent steps of this process say of its loss, its speed and the time left.
class Pace {
 public:
  // `now`: when the step ended, on any clock of seconds.
  void add(const StepMetrics& metrics, double now);

  // Means over the recent steps; of at least one.
  double loss() const;
  double tokens_per_second() const;
  // Nothing until enough steps have been timed. The first is not: buffers are touched and kernels
  // chosen in it. Of the others the median counts, and what lies between steps (checkpoints,
  // validation) by its mean.
  std::optional<double> seconds_left(std::int64_t steps) const;

 private:
  struct Recent {
    double loss = 0, seconds = 0, tokens = 0;
  };
  std::deque<Recent> recent_;        // for loss and speed
  std::deque<double> step_seconds_;  // timed steps
  std::optional<double> last_end_;   // of the step before
  double pause_seconds_ = 0;         // between all timed steps
  std::int64_t timed_ = 0;
};

}  // namespace trireme
