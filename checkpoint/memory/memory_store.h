#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/catalogue.h"
#include "checkpoint/memory/memory_folder.h"
#include "checkpoint/memory/memory_reader.h"
#include "checkpoint/memory/nodes.h"
#include "checkpoint/memory/raw_shard.h"
#include "checkpoint/read/load.h"
#include "checkpoint/write/division.h"

namespace trireme::checkpoint {

// In-memory snapshots of a run between checkpoints (Gemini: Wang et al., SOSP 2023), which survive
// the run's processes. Each rank copies the pieces it has to write into a shard, a rank of the next
// node keeps a copy of the shard, and a manifest on every node commits the snapshot, with the same
// boxes and checksums as in a checkpoint. There are two slots: a snapshot is overwritten only when
// the other slot has a complete newer one.
//
// All calls are collective, in the same order on all ranks; errors are thrown on all ranks.
class MemoryStore {
 public:
  // Uses the folder `place` of a memory file system on every node. Neither creates nor changes
  // anything yet. `ranks` outlives the store.
  MemoryStore(std::filesystem::path place, const std::string& run, Nodes nodes,
              Communicator& ranks);
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;

  // Fills `wanted` from the newest complete snapshot that is newer than `disk`, the newest
  // checkpoint; nullopt if there is none. Appends the reasons for rejecting newer snapshots to
  // `rejected`. Throws MismatchError if the snapshot is of a different model. Snapshots that were
  // not loaded are kept: call forget() if the run resumes from another state.
  std::optional<Loaded> load_newest(std::span<const Piece> wanted, std::optional<Lineage> disk,
                                    std::vector<std::string>& rejected,
                                    const Match& match = Match::kAll);
  // Marks both slots empty.
  void forget();

  // Allocates both slots, preserving the loaded snapshot. `pieces` are what save() stores: their
  // memory, shapes and boxes must not change. `available` is the free memory of this rank's machine
  // in bytes. Throws EnvironmentError if a node has not enough space.
  void prepare(std::span<const Piece> pieces, std::uint64_t available);
  // After prepare(): bytes used on this rank's node.
  std::uint64_t bytes_here() const;
  // Folders of other runs that prepare() removed on this rank's node.
  const std::vector<std::filesystem::path>& removed() const { return removed_; }

  // After prepare(): stores the current contents of the pieces with the metadata `described` (of
  // the leader; see Store::described). If it throws, the older snapshot is intact.
  void save(Manifest described, const AddDigests& add_digests = nullptr);

  // Removes the run's snapshots and frees their memory.
  void remove();

  const MemoryFolder& folder() const { return folder_; }
  const Nodes& nodes() const { return nodes_; }

 private:
  // The files a rank writes in a slot.
  struct Slot {
    MappedShard own;
    std::vector<std::pair<int, MappedShard>> copies;  // of ranks on the previous node
  };
  void take();
  void fit(int slot);
  void send_copies(const Slot& slot);
  MappedShard shard_in(int slot, int rank) const;
  std::string shard_name_of(int rank) const;
  bool leads() const { return nodes_.leads(team_.rank()); }

  const std::string run_;
  const Nodes nodes_;
  Communicator& ranks_;
  const Team team_;
  MemoryFolder folder_;
  const MemoryReader reader_;
  bool taken_ = false;
  std::optional<int> newest_;  // slot of the newest complete snapshot
  Division division_;
  std::vector<RawLayout> layouts_;  // by rank, of its shard
  std::array<std::optional<Slot>, MemoryFolder::kSlots> slots_;
  std::vector<std::filesystem::path> removed_;
};

}  // namespace trireme::checkpoint
