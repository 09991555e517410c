#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/catalogue.h"
#include "checkpoint/manifest.h"
#include "checkpoint/piece.h"
#include "parallel/comm/neighbours.h"

namespace trireme::checkpoint {

// Fills `wanted` from the checkpoint in `folder`, whatever boxes it was written in,
// by plain reads at the manifest's offsets; HDF5 has no part in it. Every rectangle
// that is needed is read once and its CRC32C compared, and every tensor that `wanted` has
// in full is compared once more in memory. Throws MismatchError, or a CheckpointError that
// names file and tensor; `wanted` may be half filled after that, and must not be used.
// Needs kWindow bytes of memory.
void load_pieces(const std::filesystem::path& folder, const Manifest& manifest,
                 std::span<const Piece> wanted, Match match);

// What a rank has to share with the others of its host for load_together.
std::size_t shared_bytes();
// Such a load by all ranks of a host, of which none reads again what another reads for it: each
// shows the others what it has read and checked. `wanted` is what each of them wants, by place,
// with memory of this rank's; all of it is in the checkpoint. Where one fails, all end: it
// throws, and on the others it returns false, their pieces half filled. `host` is new. Needs
// kWindow bytes of memory, and then as much of what is shared.
bool load_together(const std::filesystem::path& folder, const Manifest& manifest,
                   std::span<const std::span<const Piece>> wanted, Neighbours& host);

// Everything that is wrong with the checkpoint in `folder`, each in one line that
// names the file and, where it is in a tensor's bytes, the tensor. Reads every byte, as
// many shards at a time as it may use threads.
std::vector<std::string> problems_of(const std::filesystem::path& folder, int threads = 1);

// Throws CheckpointError unless all files are there with the sizes the manifest says.
void check_files(const std::filesystem::path& folder, const Manifest& manifest);

}  // namespace trireme::checkpoint
