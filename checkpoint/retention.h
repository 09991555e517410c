#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"

namespace trireme::checkpoint {

// One committed checkpoint as seen from outside.
struct Summary {
  std::int64_t step = 0;
  std::filesystem::path folder;
  std::optional<Manifest> manifest;  // absent when it cannot be read
  std::string problem;               // why
};

struct Retention {
  int keep_latest = 2;          // at least 2
  std::int64_t keep_every = 0;  // steps divisible by it are kept for ever; 0: none
};

// Removes the surplus of `checkpoints` (newest first) of the run, oldest first, and returns
// the steps removed. Counts only checkpoints whose every byte was verified, and never removes
// one of those. `good` are the steps known to be so; it learns of more.
std::vector<std::int64_t> prune(const std::vector<Summary>& checkpoints, const std::string& run,
                                const Retention& retention, std::set<std::int64_t>& good);

}  // namespace trireme::checkpoint
