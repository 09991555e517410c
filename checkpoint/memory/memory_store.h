#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/memory/mapped_shard.h"
#include "checkpoint/memory/memory_folder.h"
#include "checkpoint/memory/memory_reader.h"
#include "checkpoint/memory/nodes.h"
#include "checkpoint/memory/raw_shard.h"
#include "checkpoint/store.h"

namespace trireme::checkpoint {

// Snapshots of a run between its checkpoints, in the memory of its nodes, where they
// outlive its processes. Each rank copies the pieces that are its to write into a shard of
// its own, a rank of the next node keeps a copy of that, and a manifest on every node seals
// the snapshot: the same rectangles and checksums as a checkpoint's. There are two slots;
// the older snapshot is given up only for one that is newer than a whole one. What is
// Gemini's idea (Wang et al., SOSP 2023), with the run itself as the one who writes.
//
// All ranks make all calls, in the same order; errors are thrown on all.
class MemoryStore {
 public:
  // In `place`, a folder of a file system of memory on every node. Nothing is made yet, and
  // what the run has left there is as it was. `ranks` outlives the store.
  MemoryStore(std::filesystem::path place, const std::string& run, Nodes nodes,
              Communicator& ranks);
  MemoryStore(const MemoryStore&) = delete;
  MemoryStore& operator=(const MemoryStore&) = delete;

  // Fills `wanted` from the newest snapshot that is whole and newer than `disk`, the newest
  // checkpoint; nullopt when there is none. Adds to `rejected` why newer ones were not
  // taken. MismatchError when it is of another model. Snapshots that were not taken are as
  // they were: forget() them when the run goes on from elsewhere.
  std::optional<Loaded> load_newest(std::span<const Piece> wanted, std::optional<Lineage> disk,
                                    std::vector<std::string>& rejected);
  // No slot holds anything from now on.
  void forget();

  // Takes the memory for both slots, but leaves the snapshot loaded where it is. `pieces`
  // is what save() stores: their memory, shapes and boxes stay the same. `available` is
  // this rank's machine's memory that is free, bytes. Throws EnvironmentError when there is
  // no room on some node.
  void prepare(std::span<const Piece> pieces, std::uint64_t available);
  // Prepared: what this rank's node holds, bytes.
  std::uint64_t bytes_here() const;
  // Of other runs, that prepare() has removed on this rank's node.
  const std::vector<std::filesystem::path>& removed() const { return removed_; }

  // Prepared: stores the pieces as they are now, with what `described` says of them (the
  // leader's; see Store::described). When it throws the older snapshot is as it was.
  void save(Manifest described, const AddDigests& add_digests = nullptr);

  // Gives the memory back: all that the run has here.
  void remove();

  const MemoryFolder& folder() const { return folder_; }
  const Nodes& nodes() const { return nodes_; }

 private:
  // What a rank writes in a slot.
  struct Slot {
    MappedShard own;
    std::vector<std::pair<int, MappedShard>> copies;  // of ranks on the node before
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
  std::optional<int> newest_;  // slot of the newest whole snapshot
  Division division_;
  std::vector<RawLayout> layouts_;  // of each rank's shard
  std::array<std::optional<Slot>, MemoryFolder::kSlots> slots_;
  std::vector<std::filesystem::path> removed_;
};

}  // namespace trireme::checkpoint
