#pragma once
#include <cstdint>
#include <deque>
#include <optional>

#include "trainer/telemetry/step_metrics.h"

namespace trireme {

// Loss, throughput and remaining time, estimated from the recent steps of this process.
class Pace {
 public:
  // `now`: end of the step, seconds of any clock.
  void add(const StepMetrics& metrics, double now);

  // Averages over the recent steps. Require at least one step.
  double loss() const;
  double tokens_per_second() const;
  // Estimated seconds for `steps` more steps; nothing until enough steps have been timed. The first
  // step of the process is not timed (page faults, kernel selection). Uses the median step time
  // plus the mean pause between steps (checkpoints, validation).
  std::optional<double> seconds_left(std::int64_t steps) const;

 private:
  struct Recent {
    double loss = 0, seconds = 0, tokens = 0;
  };
  std::deque<Recent> recent_;        // for loss and speed
  std::deque<double> step_seconds_;  // timed steps
  std::optional<double> last_end_;   // end of the previous step
  double pause_seconds_ = 0;         // sum over all timed steps
  std::int64_t timed_ = 0;
};

}  // namespace trireme
