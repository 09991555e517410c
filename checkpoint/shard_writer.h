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
    std::vector<std::uint32_t> blocks =
        {};  // CRC32C of each (blocks.h); empty where there is but one
  };
  std::vector<Part> parts;  // one for each piece, in the same order
  double seconds = 0;       // that it took until it was on the disk, without the reading back
};

// Writes `pieces` as one HDF5 file: lays it out in a child process, as HDF5 may crash on a
// full disk, takes its blocks from the disk before the first byte of the payload, writes
// that at the datasets' offsets, syncs, reads the file back and compares. A full disk is an
// EnvironmentError, as is a crash of the child, a file that reads back differently a
// CheckpointError. The file may be left behind; its folder is the caller's to remove.
// `blocks`: CRC32C of each block of each piece, where that is known already.
WrittenShard write_shard(const std::filesystem::path& path, const hdf5::Origin& origin,
                         std::span<const Piece> pieces,
                         std::span<const std::vector<std::uint32_t>> blocks = {});

// Writes state.h5 in a child process in the same way.
StoredFile write_view(const std::filesystem::path& path, const Manifest& manifest);

}  // namespace trireme::checkpoint
