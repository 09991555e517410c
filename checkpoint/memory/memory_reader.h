#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/memory/memory_folder.h"
#include "checkpoint/memory/nodes.h"
#include "checkpoint/store.h"
#include "checkpoint/team.h"

namespace trireme::checkpoint {

// A snapshot as the nodes' folders tell of it. Its shards may lie anywhere.
struct SealedSnapshot {
  int slot = 0;  // on every node
  Lineage lineage;
  std::uint32_t crc32c = 0;  // of its manifest's text
  std::vector<int> nodes;    // that have the manifest
};

// Reads snapshots out of the union of what the nodes hold: a lost node's shards come from
// the node that keeps their copies, whatever the ranks and nodes are now. All ranks make
// each call.
class MemoryReader {
 public:
  // All outlive the reader; the folders are taken.
  MemoryReader(const MemoryFolder& folder, const Nodes& nodes, Communicator& ranks,
               const std::string& run);

  // Newest first. Adds to `problems` what is wrong with those that cannot be read.
  std::vector<SealedSnapshot> list(std::vector<std::string>& problems) const;

  // Fills `wanted`. Every shard is verified where it lies, a damaged one replaced by its
  // copy, which Loaded::rejected tells; a node then fetches, of the shards it lacks, what
  // its ranks need. Throws CheckpointError when a shard is good nowhere.
  Loaded load(const SealedSnapshot& snapshot, std::span<const Piece> wanted) const;

 private:
  struct Shards {
    std::vector<std::vector<int>> holders;  // of each, the nodes with a good one
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
