#pragma once
#include "trainer/loop/checkpointer.h"
#include "trainer/loop/resumption.h"
#include "trainer/loop/run_context.h"
#include "trainer/loop/run_reporter.h"
#include "trainer/loop/step_outcome.h"
#include "trainer/loop/train_state.h"

namespace trireme {

// Judges each attempt at a step: accepts it into the run's state, or retries it with a smaller loss
// scale (float16), skips its samples, rolls back or stops ([training] on_nonfinite, on_spike).
class Recovery {
 public:
  // All outlive it.
  Recovery(RunContext& run, RecoveryState& judged, Resumption& resumption,
           Checkpointer& checkpoints, RunReporter& reporter)
      : run_(run),
        judged_(judged),
        resumption_(resumption),
        checkpoints_(checkpoints),
        reporter_(reporter) {}

  // Collective. Throws DivergedError on all ranks where the config asks to stop.
  void judge(const StepOutcome& outcome, TrainState& state);

 private:
  void accept(const StepOutcome& outcome, TrainState& state);
  void halve_loss_scale(const StepOutcome& outcome);
  void reject(const StepOutcome& outcome, TrainState& state);
  EventsLog::Details describe(const StepOutcome& outcome, const TrainState& state,
                              const StepGuard::Decision& decision) const;
  void roll_back(const StepOutcome& outcome, TrainState& state, EventsLog::Details& details);

  RunContext& run_;
  RecoveryState& judged_;
  Resumption& resumption_;
  Checkpointer& checkpoints_;
  RunReporter& reporter_;
};

}  // namespace trireme
