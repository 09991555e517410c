#pragma once
#include <string>
#include <vector>

#include "tests/trainer/tools/plan/published_runs.h"

namespace trireme::published {

struct Memory {
  std::string model, what;
  double published = 0, counted = 0;  // GiB
};

// Of the eight runs of Korthikanti et al. 2022: parameters and optimizer at 18 bytes each by our
// count of parameters, and activations of a layer by the paper's formulas (section 4), as many
// as the first rank of our schedule holds at the same time. What this program's own layers keep
// is less, as they keep no scores; the memory planner counts that.
std::vector<Memory> korthikanti_memory(const std::vector<Run>& runs);

}  // namespace trireme::published
