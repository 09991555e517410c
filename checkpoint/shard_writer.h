#pragma once
#include <filesystem>
#include <span>
#include <vector>

#include "checkpoint/digest.h"
#include "checkpoint/hdf5/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/piece.h"

namespace trireme::checkpoint {

// "shard-00000-of-00001.h5"
std::string shard_name(std::size_t shard, std::size_t of);

// What a rank reports of the shard it wrote.
struct WrittenShard {
  StoredFile file;
  struct Part {
    std::uint64_t offset = 0;
    Digest digest;
  };
  std::vector<Part> parts;  // one for each piece, in the same order
  double seconds = 0;       // that it took until it was on the disk, without the reading back
};

// Writes `pieces` as one HDF5 file: lays it out, takes its blocks from the disk before
// the first byte is written, writes the payload at the datasets' offsets, syncs, reads
// the file back and compares. Everything happens in a child process; a full disk or a
// crash in there is an EnvironmentError here, a file that reads back differently a
// CheckpointError. The file may be left behind; its folder is the caller's to remove.
WrittenShard write_shard(const std::filesystem::path& path, const hdf5::Origin& origin,
                         std::span<const Piece> pieces);

// The same in this process, which must be one that may crash.
WrittenShard write_shard_here(const std::filesystem::path& path, const hdf5::Origin& origin,
                              std::span<const Piece> pieces);

// Writes state.h5 in a child process in the same way.
StoredFile write_view(const std::filesystem::path& path, const Manifest& manifest);

}  // namespace trireme::checkpoint
