#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/catalogue.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/piece.h"
#include "parallel/comm/host_peers.h"

namespace trireme::checkpoint {

struct Loaded {
  std::int64_t step = 0;
  std::filesystem::path folder;
  Manifest manifest;
  std::vector<std::string> rejected;  // reasons for skipping newer checkpoints
  double seconds = 0;                 // time for reading and verification
};

// Fills `wanted` from the checkpoint in `folder`, whatever layout wrote it, by plain reads at the
// manifest's offsets, without HDF5. Every box that is needed is read once and its CRC32C verified;
// every tensor that `wanted` covers completely is verified again in memory. Optional tensors that
// the checkpoint lacks keep their memory. Throws MismatchError, or CheckpointError naming file and
// tensor; `wanted` must not be used after that. Needs kWindow bytes of memory.
void load_pieces(const std::filesystem::path& folder, const Manifest& manifest,
                 std::span<const Piece> wanted, const Match& match);

// Shared memory per rank that load_together needs.
std::size_t shared_bytes();
// Collective load by all ranks of a host in which every byte is read once per host: each rank
// shares what it has read and verified. `wanted` is indexed by host rank, with memory for this
// rank's pieces; see load_pieces for those that are not in the checkpoint. If one rank fails, all
// stop: it throws, and the others return false with their pieces partly filled. `host` is unused so
// far. Needs kWindow bytes of memory, then as much for shared parts.
bool load_together(const std::filesystem::path& folder, const Manifest& manifest,
                   std::span<const std::span<const Piece>> wanted, HostPeers& host);

// Every problem of the checkpoint in `folder`, one line each, naming the file and, for tensor data,
// the tensor. Reads every byte, with at most `threads` shards at a time.
std::vector<std::string> problems_of(const std::filesystem::path& folder, int threads = 1);

// Throws CheckpointError unless all files exist with the sizes in the manifest.
void check_files(const std::filesystem::path& folder, const Manifest& manifest);

}  // namespace trireme::checkpoint
