#pragma once
#include "trainer/engine/data_feed.h"
#include "trainer/loop/inject/parameter.h"
#include "trainer/loop/run_context.h"
#include "trainer/loop/step_outcome.h"
#include "trainer/loop/trace_session.h"
#include "trainer/loop/train_state.h"

namespace trireme {

// Attempts steps: data, gradients, update.
class Trainer {
 public:
  // All outlive it.
  Trainer(RunContext& run, const RecoveryState& recovery, TraceSession& trace,
          inject::ParameterInjections& injections)
      : run_(run), recovery_(recovery), trace_(trace), injections_(injections) {}

  // Collective. Attempts the step after `state`, of which it counts the attempt only.
  StepOutcome step(TrainState& state);

 private:
  Filled fill_batch(const TrainState& state, std::int64_t step);
  Engine::StepResult train(const StepOutcome& outcome, std::int64_t valid_tokens);
  void require_plan_holds() const;

  RunContext& run_;
  const RecoveryState& recovery_;
  TraceSession& trace_;
  inject::ParameterInjections& injections_;
};

}  // namespace trireme
