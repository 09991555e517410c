#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "trainer/engine/replica_check.h"
#include "trainer/loop/run_context.h"

namespace trireme {

// elastic.replica_check_interval: compares replicated state bit for bit, at that interval and
// before each checkpoint, so that what is on disk was equal on all replicas. Collective.
class ReplicaComparison {
 public:
  explicit ReplicaComparison(RunContext& run) : run_(run) {}

  void start();
  // Whether the interval asks for a comparison after `step`.
  bool is_due(std::int64_t step) const;
  // The replicas that differ after `step`; nothing if none do, or if the step was compared before.
  std::optional<ReplicaVerdict> compare(std::int64_t step);
  // After a rollback: the next steps are new.
  void forget_step() { compared_ = -1; }
  // Records the verdict and throws PeerError on all ranks. A restart resumes from `resume_step`.
  [[noreturn]] void fail(const ReplicaVerdict& verdict, std::int64_t step,
                         std::int64_t resume_step);
  // Records the cost of all comparisons.
  void end(std::int64_t step);

 private:
  RunContext& run_;
  std::optional<ReplicaCheck> check_;
  std::int64_t compared_ = -1;  // the last step
  std::int64_t count_ = 0;
  double seconds_ = 0;  // of all comparisons
};

}  // namespace trireme
