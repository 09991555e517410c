#pragma once
#include <filesystem>
#include <span>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/piece.h"
#include "checkpoint/shard_writer.h"

namespace trireme::checkpoint {

inline constexpr const char* kPartialPrefix = ".partial-";
inline constexpr const char* kTrashPrefix = ".trash-";

// A checkpoint being written, under a name that no reader looks at. Unless it is
// published, nothing of it outlives the object.
class PartialCheckpoint {
 public:
  PartialCheckpoint(const std::filesystem::path& folder, std::int64_t step);
  ~PartialCheckpoint();
  PartialCheckpoint(const PartialCheckpoint&) = delete;
  PartialCheckpoint& operator=(const PartialCheckpoint&) = delete;

  // Where each rank writes its shard (write_shard, by shard_name).
  const std::filesystem::path& path() const { return path_; }
  // Completes all but the name, once `written[i]` reports the shard of `ranks[i]`: the
  // view and the manifest, synced. `manifest` comes with what is not about files; the
  // tables and CRCs are filled in.
  void complete(Manifest& manifest, std::span<const std::vector<Piece>> ranks,
                std::span<const WrittenShard> written);
  // One process in the place of all ranks: their shards, then complete().
  void write(Manifest& manifest, std::span<const std::vector<Piece>> ranks);
  // The commit: one rename of the folder to its final name.
  void publish();

 private:
  std::filesystem::path folder_;
  std::filesystem::path path_;
  std::filesystem::path final_;
};

// Takes a checkpoint away: first its name, then its files.
void remove_checkpoint(const std::filesystem::path& path);

// Removes what crashed writers left in a folder of checkpoints or in that of their run.
void sweep_leftovers(const std::filesystem::path& folder);

// Throws EnvironmentError unless the file system has `bytes` and five percent.
void check_space(const std::filesystem::path& folder, std::uint64_t bytes);

}  // namespace trireme::checkpoint
