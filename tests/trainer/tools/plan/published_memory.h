#pragma once
#include <string>
#include <vector>

#include "tests/trainer/tools/plan/published_runs.h"

namespace trireme::published {

struct Memory {
  const Run* run = nullptr;
  std::string what;
  double published = 0, planned = 0;  // GiB
};

// What has been published of a rank's memory, and what this program's arenas would hold in the same
// run: those of Korthikanti et al. 2022 (figures 1 and 7) apart, of others the most of a rank.
std::vector<Memory> published_memory(const std::vector<Run>& runs);

}  // namespace trireme::published
