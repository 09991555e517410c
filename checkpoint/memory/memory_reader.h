#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/memory/memory_folder.h"
#include "checkpoint/memory/nodes.h"
#include "checkpoint/read/load.h"
#include "parallel/comm/team.h"

namespace trireme::checkpoint {

// A committed snapshot found in the nodes' folders. Its shards may be on any nodes.
struct SealedSnapshot {
  int slot = 0;  // on every node
  Lineage lineage;
  std::uint32_t crc32c = 0;  // of the manifest's text
  std::vector<int> nodes;    // nodes that have the manifest
};

// Reads snapshots from the union of all nodes' memory: the shards of a lost node come from the node
// with their copies, whatever the current ranks and nodes. All calls are collective.
class MemoryReader {
 public:
  // All arguments outlive the reader; the folders are locked by take().
  MemoryReader(const MemoryFolder& folder, const Nodes& nodes, Communicator& ranks,
               const std::string& run);

  // Newest first. Appends the reasons for unreadable snapshots to `problems`.
  std::vector<SealedSnapshot> list(std::vector<std::string>& problems) const;

  // Fills `wanted`. Every shard is verified on its node; a damaged one is replaced by its copy and
  // reported in Loaded::rejected. A node then fetches what its ranks need of the shards it lacks.
  // Throws CheckpointError if a shard has no valid copy.
  Loaded load(const SealedSnapshot& snapshot, std::span<const Piece> wanted,
              const Match& match) const;

 private:
  struct Shards {
    std::vector<std::vector<int>> holders;  // by shard: nodes with a valid copy
    std::vector<std::string> problems;
  };
  Shards verified(const Manifest& manifest, const std::filesystem::path& slot) const;
  bool leads() const { return nodes_.leads(team_.rank()); }

  const MemoryFolder& folder_;
  const Nodes& nodes_;
  Communicator& ranks_;
  const Team team_;
  const std::string run_;
};

}  // namespace trireme::checkpoint
