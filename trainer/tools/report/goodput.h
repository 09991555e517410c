#pragma once
#include <optional>
#include <string>
#include <vector>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// Where a run's wall time went, from its first start on.
struct Goodput {
  double wall = 0;    // seconds, until the newest that is known of the run
  double useful = 0;  // of them in the steps that stand in metrics.jsonl: each once
  struct Share {
    std::string name;
    double seconds = 0;
  };
  std::vector<Share> lost;  // the rest, what has no other name last; those that are zero not
  std::int64_t failures = 0;
  std::int64_t restarts = 0;          // launched again, or resumed
  std::int64_t recomputed_steps = 0;  // as launch told, or else as failures and resumes tell

  double fraction() const { return useful / wall; }
};

// Nothing where the events do not tell when the run started, or no step was done.
std::optional<Goodput> goodput(const RunData& run);

}  // namespace trireme
