#pragma once
#include <optional>
#include <string>
#include <vector>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// Breakdown of a run's wall time since its first start.
struct Goodput {
  double wall = 0;    // seconds until the last recorded event or step
  double useful = 0;  // seconds in steps of metrics.jsonl, each counted once
  struct Share {
    std::string name;
    double seconds = 0;
  };
  std::vector<Share> lost;  // nonzero losses; unattributed time is last
  std::int64_t failures = 0;
  std::int64_t restarts = 0;          // relaunches and resumes
  std::int64_t recomputed_steps = 0;  // from recovered events, otherwise estimated

  double fraction() const { return useful / wall; }
};

// nullopt if no start event or no step was recorded.
std::optional<Goodput> goodput(const RunData& run);

}  // namespace trireme
