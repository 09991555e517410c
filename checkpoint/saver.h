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

// What a rank writes with while it trains: memory for one snapshot of `most` bytes and a
// process that reads it. Made before the rank's own memory is.
class BackgroundWriter {
 public:
  explicit BackgroundWriter(std::size_t most);
  SnapshotMemory memory;
  WriterProcess process;
};

// Commits checkpoints while the run goes on: begin() copies the state, processes of all
// ranks write the shards, then the leader's completes, publishes and prunes. Between those
// steps the ranks have to meet: they ask waits() whenever they agree on something anyway,
// and call advance() together once nobody waits. All ranks make the same calls.
class Saver {
 public:
  // `pieces`: what this rank holds, always in the same memory. The writer and the store
  // outlive the saver. `retention`: null keeps all.
  Saver(Store& store, BackgroundWriter& writer, std::vector<Piece> pieces,
        std::optional<Retention> retention);

  // Returns once the state may change again. The save before must be over. Throws as
  // Store::commit does; there is no save then.
  void begin(Snapshot snapshot);
  bool busy() const { return commit_.has_value(); }
  // Whether this rank's part of what is under way is still being done.
  bool waits();

  struct Saved {
    Committed committed;
    std::vector<std::int64_t> removed;  // steps that retention took away
    std::string not_removed;            // why it could not; or empty
  };
  // Goes one step on, and waits for what waits() tells of; something once it is committed.
  // Throws as Store::commit does; the save is over then.
  std::optional<Saved> advance();
  Saved finish();  // waits for all of it

  // Of this rank's snapshot.
  std::size_t bytes() const { return SnapshotMemory::bytes_for(division_.mine); }

 private:
  std::optional<Saved> advance_once();
  std::string publish_request(const Manifest& manifest) const;

  Store& store_;
  BackgroundWriter& writer_;
  const Division division_;
  const std::optional<Retention> retention_;
  std::optional<Store::Commit> commit_;  // under way
  Snapshot snapshot_;                    // of it, without pieces
  bool publishing_ = false;              // its shards are written
};

}  // namespace trireme::checkpoint
