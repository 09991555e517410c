#pragma once
#include "trainer/loop/run_context.h"
#include "trainer/loop/trace_session.h"
#include "trainer/loop/train_state.h"

namespace trireme {

// Takes a run from one length of its sequences to the next (data.stages).
class StageSwitch {
 public:
  // Both outlive it.
  StageSwitch(RunContext& run, TraceSession& trace) : run_(run), trace_(trace) {}

  // Before each step. All samples of a step have the same length: those before a stage that are too
  // few for a step, because others were excluded, are left out. Collective.
  void before_step(TrainState& state);

 private:
  void leave_out_the_rest(TrainState& state);

  RunContext& run_;
  TraceSession& trace_;
};

}  // namespace trireme
