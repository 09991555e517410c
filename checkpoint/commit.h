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

 private:
  std::filesystem::path path_;
};

// The steps from the shards to the commit, for the one who leads. First: what the manifest
// says of files and tensors, once `written[i]` reports the shard of `ranks[i]`; all of it but
// the view.
void add_tables(Manifest& manifest, std::span<const std::vector<Piece>> ranks,
                std::span<const WrittenShard> written);
// Then all that the partial checkpoint still lacks but its name, synced: view and manifest.
void complete(const std::filesystem::path& partial, Manifest& manifest);
// Then the commit: one rename of `partial` to the name of its step beside it.
void publish(const std::filesystem::path& partial, std::int64_t step);

// Rewrites `latest`, which nobody but people reads: that it cannot be written is no error.
void name_latest(const std::filesystem::path& folder, std::int64_t step);

// Takes a checkpoint away: first its name, then its files.
void remove_checkpoint(const std::filesystem::path& path);

// Removes what crashed writers left in a folder of checkpoints or in that of their run.
void sweep_leftovers(const std::filesystem::path& folder);

// Throws EnvironmentError unless the file system has `bytes` and five percent.
void check_space(const std::filesystem::path& folder, std::uint64_t bytes);

}  // namespace trireme::checkpoint
