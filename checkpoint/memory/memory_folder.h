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

// What one node holds of a run's snapshots, in a folder of a file system of memory:
//
//   PLACE/trireme-UID-RUN/lock                the node's leading process has it locked
//   PLACE/trireme-UID-RUN/slot-0, slot-1      one snapshot each: shards of this node's ranks,
//                                             those it keeps copies of, and manifest.json
//   PLACE/trireme-UID-RUN/reading             while a snapshot is read
//
// A slot without a manifest holds nothing. What a killed run leaves here is taken over by
// the next process of the run; a run that ends regularly removes it; what nobody has come
// back to for kKeptFor the next run on the node removes, whichever it is; a reboot does too.
class MemoryFolder {
 public:
  static constexpr int kSlots = 2;
  static constexpr std::chrono::hours kKeptFor{24};

  // Makes nothing yet.
  MemoryFolder(std::filesystem::path place, const std::string& run);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path slot(int slot) const;
  bool exists() const;

  // For the node's leader, the rest too. Makes the folder if need be and locks it; it then
  // holds the two slots and nothing else. Throws EnvironmentError when another process has
  // it, or when it is not this user's alone.
  void take();
  // Leaves of a slot only the files named.
  void clear(int slot, const std::set<std::string>& but) const;
  // The slot holds this snapshot from now on.
  void seal(int slot, const std::string& manifest) const;
  void remove();
  // Removes the folders of this user's other runs that no process has locked and that have
  // not changed for kKeptFor. Returns their paths.
  std::vector<std::filesystem::path> remove_forgotten() const;

  // For all ranks: the slot holds nothing from now on.
  void invalidate(int slot) const;

 private:
  std::filesystem::path place_;
  std::filesystem::path path_;
  std::optional<File> lock_;
};

// Throws EnvironmentError unless `place` has room for `bytes` more beside what `folder` has
// taken of it already, and the machine, which has `available`, too.
void check_memory_room(const std::filesystem::path& place, const std::filesystem::path& folder,
                       std::uint64_t bytes, std::uint64_t available);

}  // namespace trireme::checkpoint
