#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "checkpoint/team.h"
#include "trainer/loop/expected_step.h"
#include "trainer/loop/run_log.h"

namespace trireme {

// Proves that a resumed run is the same run: the loss and the gradient norm of its first step
// are those the run had when it took that step before, where it had got so far. (That the
// weights are the checkpoint's has been proven by their hash.) They must be equal to the bit;
// only where something that decides the order of sums differs (layout, threads, device,
// program, ways to multiply matrices) may they differ, by what tolerance_of says.
class SelfCheck {
 public:
  // Of a run that now stands at `progress`. `why_not`: a reason to compare nothing, or empty.
  // Collective; before metrics.jsonl is cut. Leaves a note for the next resume, too: where it
  // cannot, that is told and the run goes on.
  SelfCheck(const checkpoint::Team& team, const std::filesystem::path& run,
            const RunProgress& progress, const Computation& computation, const std::string& why_not,
            RunLog& log);

  struct Step {
    std::int64_t step = 0;
    RecordedStep taken;
    bool products_chosen = false;  // some way to multiply matrices was, on some rank
    bool norm_compares = true;     // false: its gradients need what is in no checkpoint
  };
  // For the first step that was applied, on all ranks. Tells and records the verdict; throws
  // CheckpointError with what differs.
  void compare(const Step& step, const std::string& dtype, RunLog& log) const;

  // Largest relative differences between layouts, of a step from the same weights.
  struct Tolerance {
    double loss = 0;
    double grad_norm = 0;
  };
  // By training.dtype: ten times what tests/trainer/layout allows tiny models in float32, and
  // what it allows them in bfloat16; the others by their formats' roundings.
  static Tolerance tolerance_of(const std::string& dtype);

 private:
  Expectation expected_;
  ComputationChange change_;  // since the expected step was taken
};

}  // namespace trireme
