#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "parallel/comm/team.h"
#include "trainer/engine/computation.h"
#include "trainer/loop/run_log.h"
#include "trainer/loop/train_state.h"
#include "trainer/telemetry/metrics_log.h"

namespace trireme {

// The step after a checkpoint as recorded before the run was resumed there.
struct ExpectedStep {
  std::int64_t step = 0;
  std::string weights;  // hash of those it started from
  RecordedStep taken;
  Computation computation;  // that it was done with
};

// The expected first step of a resumed run, or why there is none.
struct Expectation {
  std::optional<ExpectedStep> step;
  std::string why_none;
};

// For a run that resumes at `state`. Reads metrics.jsonl, which must not have been cut yet, and
// RUN_DIR/self_check.json, where the last start recorded its computation and the expectation of a
// first step that it may not have reached.
Expectation expected_step(const std::filesystem::path& run, const TrainState& state);

// Writes RUN_DIR/self_check.json for the next start: the computation of the steps after
// `started_at`, or after an earlier step that the file already records with the same computation.
// Throws EnvironmentError.
void write_self_check(const std::filesystem::path& run, std::int64_t started_at,
                      const Computation& computation, const std::optional<ExpectedStep>& expected);

// An expectation as text, and back.
std::string text_of(const Expectation& expectation);
Expectation parse_expectation(const std::string& text);

// Proves that a resumed run continues the same run: if its first step was done before, loss and
// gradient norm must be bit-identical. (The hash has proven that the weights are the checkpoint's.)
// If something that decides the order of sums differs (layout, threads, device, program,
// matrix-product libraries), they may differ by tolerance_of.
class SelfCheck {
 public:
  // For a run at `state`. `why_not`: a reason to compare nothing, or empty. Collective; before
  // metrics.jsonl is cut. Also writes self_check.json for the next resume; logs if it cannot.
  SelfCheck(const Team& team, const std::filesystem::path& run, const TrainState& state,
            const Computation& computation, const std::string& why_not, RunLog& log);

  struct Step {
    std::int64_t step = 0;
    RecordedStep taken;
    bool products_chosen = false;  // some rank chose a matrix-product library in it
    bool norm_compares = true;     // false: its gradients depend on state that no checkpoint stores
  };
  // For the first applied step, on all ranks. Logs the verdict; throws CheckpointError with what
  // differs.
  void compare(const Step& step, const std::string& dtype, RunLog& log) const;

  // Largest relative differences between layouts for a step from the same weights.
  struct Tolerance {
    double loss = 0;
    double grad_norm = 0;
  };
  // By training.dtype. float32: ten times the tolerance of tests/trainer/layout for tiny models;
  // bfloat16: that tolerance; others: by the rounding of their formats.
  static Tolerance tolerance_of(const std::string& dtype);

 private:
  Expectation expected_;
  ComputationChange change_;  // since the expected step
};

}  // namespace trireme
