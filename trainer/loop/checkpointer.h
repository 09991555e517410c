#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/store/saver.h"
#include "trainer/loop/memory_tier.h"
#include "trainer/loop/replica_comparison.h"
#include "trainer/loop/run_context.h"
#include "trainer/loop/train_state.h"

namespace trireme {

// A run's checkpoints on disk, synchronous or asynchronous, and in memory. What is written has been
// compared between replicas first. A checkpoint that cannot be written is logged and costs the
// run nothing else. All methods that take the run's state are collective.
class Checkpointer {
 public:
  // All outlive it.
  Checkpointer(RunContext& run, const RecoveryState& recovery, MemoryTier& memory,
               ReplicaComparison& replicas);

  // The run starts, or resumes from a checkpoint.
  void start(const std::optional<checkpoint::Loaded>& from);
  void start_memory(std::int64_t step);
  // Compares replicas, advances the save in progress and starts those that are due. `is_writing`:
  // some rank still writes its shard.
  void after_step(const TrainState& state, bool is_writing);
  // Commits the state to disk unless it is there. False if it could not be written.
  bool commit(const TrainState& state);
  // Waits for the save in progress, for a run at `step`.
  void finish_save(std::int64_t step);
  // The run has rolled back to the committed step.
  void rolled_back_to(std::int64_t step);
  // The run ends at `step`, all of it on disk.
  void end(std::int64_t step);

  // Whether this rank still writes its shard.
  bool is_writing() { return saver_ && saver_->waits(); }
  // The newest step on disk; -1: none.
  std::int64_t committed() const { return committed_; }
  // "newest checkpoint: step 100", or "newest checkpoint: none".
  std::string newest_text() const;
  // Why the last commit failed.
  const std::string& failure() const { return failure_; }
  // Host memory of this rank's asynchronous saves, if any.
  std::optional<std::size_t> snapshot_bytes() const;
  // Throws EnvironmentError on all ranks: the run's last step is not on disk.
  [[noreturn]] void throw_uncommitted(const std::string& what, std::int64_t step) const;

 private:
  struct Save {
    std::int64_t step = 0;
    double start = 0, blocked = 0;  // seconds: the clock at its start; how long training waited
  };
  checkpoint::Snapshot snapshot(const TrainState& state);
  void require_equal_replicas(const TrainState& state);
  bool save(const TrainState& state);
  void advance_save(std::int64_t step);
  void save_to_memory(const TrainState& state);
  void report_committed(const checkpoint::Committed& committed, double seconds, double blocked);
  bool report_failed(std::int64_t step, std::int64_t at, const Error& error);
  void report_removed(const std::vector<std::int64_t>& steps, std::int64_t at);

  RunContext& run_;
  const RecoveryState& recovery_;
  MemoryTier& memory_;
  ReplicaComparison& replicas_;
  const std::string tokenizer_hash_;
  std::optional<checkpoint::Saver> saver_;
  Save save_;                    // in progress
  std::int64_t committed_ = -1;  // newest step on disk
  std::string failure_;
};

}  // namespace trireme
