#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "trainer/loop/checkpointer.h"
#include "trainer/loop/gemm_choices.h"
#include "trainer/loop/inject/parameter.h"
#include "trainer/loop/resumption.h"
#include "trainer/loop/run_context.h"
#include "trainer/loop/self_check.h"
#include "trainer/loop/step_outcome.h"
#include "trainer/loop/trace_session.h"
#include "trainer/loop/train_state.h"
#include "trainer/telemetry/core_wait.h"

namespace trireme {

// Reports a run: its start, each step's metrics and samples, evaluations, the self-check of a
// resumed run, and its end. All ranks make the same calls; rank 0 writes.
class RunReporter {
 public:
  // All outlive it.
  RunReporter(RunContext& run, const RecoveryState& recovery, const Resumption& resumption,
              TraceSession& trace, GemmChoices& gemm_choices)
      : run_(run),
        recovery_(recovery),
        resumption_(resumption),
        trace_(trace),
        gemm_choices_(gemm_choices),
        core_wait_(run.threads) {}

  // Before metrics.jsonl is cut: what the first step of this start is compared with.
  void start_self_check(const TrainState& state);
  // Opens the files of a run at `state`; `why`: "start", "resume" or "rollback".
  void open_log(const char* why, const TrainState& state);
  // The banner and the event of the start.
  void announce(const TrainState& state, const Checkpointer& checkpoints,
                const inject::ParameterInjections& injections);
  void after_step(const StepOutcome& outcome, const TrainState& state, const RunStatus& status);
  void end(ExitCode code, const std::string& reason, std::int64_t step);

 private:
  void compare_first_step(const StepOutcome& outcome, const RunStatus& status);
  StepMetrics metrics_of(const StepOutcome& outcome, const TrainState& state,
                         const RunStatus& status, double seconds);
  LedgerStep ledger_step(const StepOutcome& outcome, const RunStatus& status) const;
  void warn_of_busy_cores(std::int64_t step);

  RunContext& run_;
  const RecoveryState& recovery_;
  const Resumption& resumption_;
  TraceSession& trace_;
  GemmChoices& gemm_choices_;
  CoreWait core_wait_;
  std::optional<SelfCheck> self_check_;  // until the first step is done
  double logging_seconds_ = 0;           // of the step before, counted for the next
};

}  // namespace trireme
