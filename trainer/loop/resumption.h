#pragma once
#include <optional>
#include <string>

#include "checkpoint/store/store.h"
#include "trainer/loop/initial_weights.h"
#include "trainer/loop/memory_tier.h"
#include "trainer/loop/run_context.h"
#include "trainer/loop/train_state.h"

namespace trireme {

// Brings a run to where it starts or rolls back to: a checkpoint of its folder, the weights of
// another run, or initialized weights. All methods that take part in this are collective.
class Resumption {
 public:
  // All outlive the resumption.
  Resumption(RunContext& run, MemoryTier& memory) : run_(run), memory_(memory) {}

  // Loads the weights and returns where the run starts, as checkpoint.resume says. Throws
  // CheckpointError where it cannot resume from what it finds.
  TrainState begin(RecoveryState& recovery);
  // The checkpoint it resumes from; nothing when it starts.
  const std::optional<checkpoint::Loaded>& from() const { return from_; }
  // Whose weights it starts with; nothing when they are initialized, or when it resumes.
  const std::optional<InitialWeights>& weights_from() const { return weights_from_; }
  // Why its first step cannot be compared with the previous run; empty when it can.
  const std::string& not_comparable() const { return not_comparable_; }

  // Back to the newest good checkpoint, keeping the counts of `recovery`. Returns nothing, and
  // changes nothing, when there is none.
  std::optional<checkpoint::Loaded> roll_back(TrainState& state, RecoveryState& recovery);

  // Logs which checkpoints were rejected, and what has changed in the config since.
  void report() const;

 private:
  TrainState start();
  RunConfig config_before(const checkpoint::Loaded& from) const;
  void require_same_data(const checkpoint::Loaded& from, const RunConfig& before);
  void require_same_numerics(const checkpoint::Loaded& from, const RunConfig& before);
  TrainState resume_from(const checkpoint::Loaded& from);

  RunContext& run_;
  MemoryTier& memory_;
  std::optional<checkpoint::Loaded> from_;
  std::optional<InitialWeights> weights_from_;
  std::string not_comparable_;
  bool average_starts_ = false;
};

// Logs why newer checkpoints were rejected, for a run now at `step`.
void report_rejected(RunLog& log, const checkpoint::Loaded& from, std::int64_t step);

}  // namespace trireme
