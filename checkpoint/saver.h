#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/division.h"
#include "checkpoint/retention.h"
#include "checkpoint/snapshot_memory.h"
#include "checkpoint/store.h"
#include "checkpoint/writer_process.h"

namespace trireme::checkpoint {

// Resources of asynchronous saves: memory for one snapshot of `most` bytes and a process that reads
// it. Construct it before the rank's memory is allocated, so that the fork is cheap.
class BackgroundWriter {
 public:
  explicit BackgroundWriter(std::size_t most);
  SnapshotMemory memory;
  WriterProcess process;
};

// Asynchronous checkpoints: begin() copies the state, a process per rank writes the shards, then
// the leader's process completes, publishes and prunes. The ranks synchronize between these phases:
// whenever they agree on something anyway they include waits(), and call advance() together once no
// rank waits. All calls are made on all ranks.
class Saver {
 public:
  // `pieces` is what this rank holds, always in the same memory. The writer and the store outlive
  // the saver. `retention`: null keeps all checkpoints.
  Saver(Store& store, BackgroundWriter& writer, std::vector<Piece> pieces,
        std::optional<Retention> retention);

  // Returns when the state may change again. The previous save must be finished. Throws as
  // Store::commit does; no save is pending then.
  void begin(Snapshot snapshot);
  bool busy() const { return commit_.has_value(); }
  // Whether this rank's part of the current phase is unfinished.
  bool waits();

  struct Saved {
    Committed committed;
    std::vector<std::int64_t> removed;  // steps removed by retention
    std::string not_removed;            // error of the removal; empty if none
  };
  // Runs the next phase, blocking where waits() is true; returns a value once the checkpoint is
  // committed. Throws as Store::commit does; the save has ended then.
  std::optional<Saved> advance();
  Saved finish();  // runs all remaining phases

  // Size of this rank's snapshot.
  std::size_t bytes() const { return SnapshotMemory::bytes_for(division_.mine); }

 private:
  std::optional<Saved> advance_once();
  std::string publish_request(const Manifest& manifest) const;

  Store& store_;
  BackgroundWriter& writer_;
  const Division division_;
  const std::optional<Retention> retention_;
  std::optional<Store::Commit> commit_;  // the save in progress
  Snapshot snapshot_;                    // its snapshot, without pieces
  bool publishing_ = false;              // all shards are written
};

}  // namespace trireme::checkpoint
