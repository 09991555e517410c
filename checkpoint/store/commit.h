#pragma once
#include <cstdint>
#include <filesystem>

#include "checkpoint/format/manifest.h"

namespace trireme::checkpoint {

inline constexpr const char* kPartialPrefix = ".partial-";
inline constexpr const char* kTrashPrefix = ".trash-";

// A checkpoint being written, under a name that readers ignore. Removed by the destructor unless
// published.
class PartialCheckpoint {
 public:
  PartialCheckpoint(const std::filesystem::path& folder, std::int64_t step);
  ~PartialCheckpoint();
  PartialCheckpoint(const PartialCheckpoint&) = delete;
  PartialCheckpoint& operator=(const PartialCheckpoint&) = delete;

  // The folder in which each rank writes its shard (write_shard, by shard_name).
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The steps from shards to commit, run by the leader. First, for a manifest with its tables
// (add_tables): writes and syncs the view and the manifest.
void complete(const std::filesystem::path& partial, Manifest& manifest);
// Second: commits by one rename of `partial` to the name of its step. Then rewrites `latest`, which
// is informational only: failure to write it is not an error.
void publish(const std::filesystem::path& partial, std::int64_t step);

// Removes a checkpoint: renames it first, then deletes its files.
void remove_checkpoint(const std::filesystem::path& path);

// Removes leftovers of crashed writers from a checkpoint folder and its run folder.
void sweep_leftovers(const std::filesystem::path& folder);

// Throws EnvironmentError unless the file system has `bytes` plus five percent free.
void check_space(const std::filesystem::path& folder, std::uint64_t bytes);

}  // namespace trireme::checkpoint
