#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/catalogue.h"
#include "checkpoint/store/commit.h"
#include "checkpoint/store/retention.h"
#include "checkpoint/store/store.h"
#include "checkpoint/write/division.h"
#include "checkpoint/write/snapshot_memory.h"
#include "checkpoint/write/writer_process.h"

namespace trireme::checkpoint {

// What a checkpoint says in addition to its tensors. Fields other than the step are read from the
// leader only.
struct Snapshot {
  Manifest manifest;  // step, config and what the run knows; Store::stamped() and the save add more
  std::vector<std::filesystem::path> after_files;  // must be on disk before the commit
  AddDigests add_digests;
};

struct Committed {
  std::int64_t step = 0;
  std::filesystem::path folder;
  std::uint64_t bytes = 0;            // of the tensors, over all ranks
  double write_seconds = 0;           // until the last shard was on disk, without reading back
  std::vector<std::int64_t> removed;  // steps removed by retention
  std::string not_removed;            // error of the removal; empty if none
};

// Resources of asynchronous saves: memory for one snapshot of `most` bytes and a process that reads
// it. Construct it before the rank's memory is allocated, so that the fork is cheap.
class BackgroundWriter {
 public:
  explicit BackgroundWriter(std::size_t most);
  SnapshotMemory memory;
  WriterProcess process;
};

// Saves checkpoints: each rank writes its shard, then the leader completes, publishes and prunes.
// With a writer begin() copies the state, and both are done by the writers' processes while the
// ranks continue; without one begin() and advance() do them. The ranks synchronize between the
// phases: whenever they agree on something anyway they include waits(), and call advance() together
// once no rank waits. All calls are made on all ranks.
class Saver {
 public:
  // `pieces` is what this rank holds, always in the same memory. Those of all ranks together cover
  // every tensor they name; a piece held by several ranks is stored once. The store and the writer
  // outlive the saver. Without `retention` all checkpoints are kept.
  Saver(Store& store, std::span<const Piece> pieces, BackgroundWriter* writer = nullptr,
        std::optional<Retention> retention = std::nullopt);

  // Returns when the state may change again. The previous save must be finished. If a save fails,
  // nothing of it remains, earlier checkpoints are intact, no save is pending, and this or
  // advance() throws EnvironmentError (disk, machine) or CheckpointError (read back differently,
  // lease lost).
  void begin(Snapshot snapshot);
  bool busy() const { return save_.has_value(); }
  // Whether this rank's part of the current phase is unfinished.
  bool waits();
  // Runs the next phase, blocking where waits() is true; returns a value once the checkpoint is on
  // disk, was read back and is named by `latest`.
  std::optional<Committed> advance();
  Committed finish();  // runs all remaining phases
  Committed save(Snapshot snapshot);

  // Size of this rank's snapshot in the writer's memory.
  std::size_t bytes() const { return SnapshotMemory::bytes_for(division_.mine); }

 private:
  struct Save {
    Snapshot snapshot;
    std::filesystem::path folder;                // of the shards
    std::unique_ptr<PartialCheckpoint> partial;  // the same, on the leader
    double write_seconds = 0;
    bool has_shards = false;  // all are written
  };
  void start_shard();
  void start_commit();
  std::string result();  // of what was started
  Committed end();

  Store& store_;
  BackgroundWriter* writer_;
  const Division division_;
  const std::optional<Retention> retention_;
  std::optional<Save> save_;  // in progress
  std::string result_;        // without a writer
};

}  // namespace trireme::checkpoint
