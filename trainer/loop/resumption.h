#pragma once
#include <optional>

#include "checkpoint/store.h"
#include "data/sequencer.h"
#include "trainer/engine/engine.h"
#include "trainer/loop/memory_tier.h"
#include "trainer/loop/run_folder.h"
#include "trainer/loop/run_log.h"
#include "trainer/loop/run_state.h"
#include "trainer/loop/step_guard.h"

namespace trireme {

// Brings a run to where it begins, or goes back to: a checkpoint of its folder, the weights of
// another run, or those that are drawn.
// All ranks make the same calls at the same time.
class Resumption {
 public:
  // Who resumes. All outlive the resumption.
  struct Run {
    const RunConfig& config;
    RunFolder& folder;
    MemoryTier& memory;
    Engine& engine;
    Communicator& ranks;  // of the run
    const data::SampleSource& data;
  };
  explicit Resumption(const Run& run) : run_(run) {}

  // Where the run begins, as checkpoint.resume says; the weights are then in place. Throws
  // CheckpointError where it cannot go on from what it finds.
  RunProgress begin(StepGuard& guard, LossScaler& scaler);
  // The checkpoint it goes on from; nothing when it starts.
  const std::optional<checkpoint::Loaded>& from() const { return from_; }
  // Whose weights it starts with; nothing when they are drawn, or when it goes on.
  const std::optional<checkpoint::Loaded>& weights_from() const { return weights_from_; }
  // Why its first step cannot be compared with the run before; empty when it can.
  const std::string& not_comparable() const { return not_comparable_; }

  // Back to the newest good checkpoint, with what `guard` and `scaler` knew there but not
  // their counts; nothing, and no change, when there is none.
  std::optional<checkpoint::Loaded> go_back(RunProgress& progress, StepGuard& guard,
                                            LossScaler& scaler);

  // What was rejected on the way, and what has changed in the config since.
  void tell(RunLog& log) const;

 private:
  RunProgress start();
  RunConfig config_before(const checkpoint::Loaded& from) const;
  void require_same_data(const checkpoint::Loaded& from, const RunConfig& before);
  void require_same_numerics(const checkpoint::Loaded& from, const RunConfig& before);
  RunProgress go_on_from(const checkpoint::Loaded& from);

  Run run_;
  std::optional<checkpoint::Loaded> from_, weights_from_;
  std::string not_comparable_;
};

// Why newer checkpoints were not taken, for a run that now stands at `step`.
void tell_rejected(RunLog& log, const checkpoint::Loaded& from, std::int64_t step);

}  // namespace trireme
