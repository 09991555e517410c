#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/catalogue.h"
#include "checkpoint/manifest.h"
#include "checkpoint/piece.h"

namespace trireme::checkpoint {

// Fills `wanted` from the checkpoint in `folder`, whatever boxes it was written in,
// by plain reads at the manifest's offsets; HDF5 has no part in it. Every rectangle
// that is needed is read once and its CRC32C compared, and every tensor that `wanted` has
// in full is compared once more in memory. Throws MismatchError, or a CheckpointError that
// names file and tensor; `wanted` may be half filled after that, and must not be used.
// Needs kWindow bytes of memory.
void load_pieces(const std::filesystem::path& folder, const Manifest& manifest,
                 std::span<const Piece> wanted, Match match);

// Everything that is wrong with the checkpoint in `folder`, each in one line that
// names the file and, where it is in a tensor's bytes, the tensor. Reads every byte, as
// many shards at a time as it may use threads.
std::vector<std::string> problems_of(const std::filesystem::path& folder, int threads = 1);

// Throws CheckpointError unless all files are there with the sizes the manifest says.
void check_files(const std::filesystem::path& folder, const Manifest& manifest);

}  // namespace trireme::checkpoint
