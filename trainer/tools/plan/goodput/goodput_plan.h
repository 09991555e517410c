#pragma once
#include <cstdint>

#include "trainer/tools/plan/goodput/failure_costs.h"
#include "trainer/tools/plan/goodput/goodput_model.h"

namespace trireme {

// Steps between checkpoints and between snapshots in memory (0: none), and what a run gets of them.
struct IntervalPlan {
  std::int64_t disk = 0, memory = 0;
  GoodputShares shares = {};
};

// Expected goodput of a run with failures.
struct GoodputPlan {
  FailureCosts costs;
  IntervalPlan configured = {}, best = {};  // best: of those the config has
  double young = 0, daly = 0;               // textbook intervals of checkpoints, in seconds
  double failures = 0;                      // expected in the whole run
};

// The model's intervals for steps of `step_seconds`.
SaveIntervals intervals_of(const IntervalPlan& plan, double step_seconds);

// Intervals of the greatest goodput, of checkpoints and, if `has_memory`, of snapshots, in a run of
// `steps`; a checkpoint is written before the next.
IntervalPlan best_intervals(const FailureModel& model, double step_seconds, std::int64_t steps,
                            bool has_memory);

// `seconds`: of the whole run without failures. Throws ConfigError if failures leave no time to
// train.
GoodputPlan plan_goodput(const SavedRun& run, const FailureOptions& options, std::int64_t steps,
                         double seconds);

}  // namespace trireme
