#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

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

// Content of the console line of an interval.
struct StepLine {
  std::int64_t step = 0;
  std::int64_t total = 0;  // 0: unknown
  double loss = 0, grad_norm = 0, lr = 0;
  double tokens_per_second = 0;
  double mfu = 0;  // 0: unknown
  std::uint64_t memory_bytes = 0;
  std::optional<double> seconds_left;
};

// Each form is shorter than the previous one.
enum class StepForm {
  kFull,      // "step 40/400 | loss 2.4499 | norm 1.8439 | lr 2.95e-03 | ..."
  kShort,     // "step 40/400 loss 2.4499 norm 1.84 lr 3.0e-3 ..."
  kNoTotal,   // "step 40 loss ..."
  kNoMemory,  // as kNoTotal, without the memory
};

std::string step_line(const StepLine& line, StepForm form);

// The longest form that fits `width` columns, for this line and later ones with any time left; the
// shortest if none fits.
StepForm step_form(const StepLine& line, int width);

}  // namespace trireme
