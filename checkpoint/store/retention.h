#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"

namespace trireme::checkpoint {

// Summary of one committed checkpoint.
struct Summary {
  std::int64_t step = 0;
  std::filesystem::path folder;
  std::optional<Manifest> manifest;  // nullopt if unreadable
  std::string problem;               // why it is unreadable
};

// The checkpoints in `folder`, newest first by lineage; unreadable ones are ordered by their step.
std::vector<Summary> list_checkpoints(const std::filesystem::path& folder);

struct Retention {
  int keep_latest = 2;          // at least 2
  std::int64_t keep_every = 0;  // keep steps divisible by it forever; 0: none
};

// Removes surplus checkpoints of the run (`checkpoints` is newest first), oldest first, and returns
// their steps. Only checkpoints whose every byte was verified count as kept, and those are never
// removed. `good` are the verified steps; newly verified ones are added.
std::vector<std::int64_t> prune(const std::vector<Summary>& checkpoints, const std::string& run,
                                const Retention& retention, std::set<std::int64_t>& good);

}  // namespace trireme::checkpoint
