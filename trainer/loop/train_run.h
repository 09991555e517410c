#pragma once
#include <string>

#include "trainer/loop/checkpointer.h"
#include "trainer/loop/gemm_choices.h"
#include "trainer/loop/inject/parameter.h"
#include "trainer/loop/memory_tier.h"
#include "trainer/loop/recovery.h"
#include "trainer/loop/replica_comparison.h"
#include "trainer/loop/resumption.h"
#include "trainer/loop/run_context.h"
#include "trainer/loop/run_reporter.h"
#include "trainer/loop/stage_switch.h"
#include "trainer/loop/step_outcome.h"
#include "trainer/loop/trace_session.h"
#include "trainer/loop/train_state.h"
#include "trainer/loop/trainer.h"
#include "trainer/supervise/watchdog/signals.h"

namespace trireme {

// One rank of one incarnation of a run, from its resumption to its end. All ranks execute the same
// code in step; rank 0 leads: it alone writes logs and commits checkpoints.
class TrainRun {
 public:
  TrainRun(LoadedConfig loaded, World& world, Device device, int threads,
           inject::ParameterInjections injections);
  ExitCode run();

 private:
  void start();
  RunStatus agree_on_status();
  void require_lease(bool is_lost) const;
  void commit_or_throw(const std::string& reason);
  ExitCode end(ExitCode code, const std::string& reason);

  StopSignals signals_;  // from before the context, which takes long to set up
  RunContext run_;
  inject::ParameterInjections injections_;
  TrainState state_;
  RecoveryState recovery_state_;
  RunStatus status_;
  GemmChoices gemm_choices_;
  TraceSession trace_;
  MemoryTier memory_;
  Resumption resumption_;
  ReplicaComparison replicas_;
  Checkpointer checkpoints_;
  RunReporter reporter_;
  Recovery recovery_;
  StageSwitch stages_;
  Trainer trainer_;
};

}  // namespace trireme
