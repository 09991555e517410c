#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/base/file.h"

namespace trireme::checkpoint {

// The snapshots of a run on one node, in a folder of a memory file system:
//
//   PLACE/trireme-UID-RUN/lock                locked by the node's leader
//   PLACE/trireme-UID-RUN/slot-0, slot-1      one snapshot each: shards of this node's ranks,
//                                             copies of the previous node's, and manifest.json
//   PLACE/trireme-UID-RUN/reading             temporary, while a snapshot is read
//
// A slot without a manifest is empty. The next process of a killed run reuses the folder; a run
// that ends normally removes it; a folder unused for kKeptFor is removed by the next run on the
// node, or by a reboot.
class MemoryFolder {
 public:
  static constexpr int kSlots = 2;
  static constexpr std::chrono::hours kKeptFor{24};

  // Creates nothing yet.
  MemoryFolder(std::filesystem::path place, const std::string& run);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path slot(int slot) const;
  bool exists() const;

  // For the node's leader, as are the following. Creates the folder if needed, locks it and removes
  // everything but the two slots. Throws EnvironmentError if another process has locked it, or if
  // other users can access it.
  void take();
  // Removes all files of a slot except `but`.
  void clear(int slot, const std::set<std::string>& but) const;
  // Commits the snapshot in the slot by writing its manifest.
  void seal(int slot, const std::string& manifest) const;
  void remove();
  // Removes folders of the same user's other runs that are not locked and were not modified for
  // kKeptFor. Returns their paths.
  std::vector<std::filesystem::path> remove_forgotten() const;

  // Any rank may call it: marks the slot empty.
  void invalidate(int slot) const;

 private:
  std::filesystem::path place_;
  std::filesystem::path path_;
  std::optional<File> lock_;
};

// Throws EnvironmentError unless `place` has space for `bytes`, including what `folder` already
// occupies, and the machine has enough `available` memory.
void check_memory_room(const std::filesystem::path& place, const std::filesystem::path& folder,
                       std::uint64_t bytes, std::uint64_t available);

}  // namespace trireme::checkpoint
