#pragma once
#include <filesystem>
#include <span>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/piece.h"
#include "checkpoint/format/shard_report.h"
#include "checkpoint/hdf5/file.h"

namespace trireme::checkpoint {

// Writes `pieces` as one HDF5 file: a child process creates the layout, as HDF5 may crash on a full
// disk; all blocks are allocated before the first payload byte; the payload is written at the
// datasets' offsets and synced; the file is read back and compared. Throws EnvironmentError for a
// full disk or a crash of the child, CheckpointError if the file reads back differently. On failure
// the file may remain; the caller removes its folder. `blocks`: CRC32C of each block of each piece,
// if already known.
WrittenShard write_shard(const std::filesystem::path& path, const hdf5::Origin& origin,
                         std::span<const Piece> pieces,
                         std::span<const std::vector<std::uint32_t>> blocks = {});

}  // namespace trireme::checkpoint
