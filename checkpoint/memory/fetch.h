#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/piece.h"
#include "checkpoint/memory/nodes.h"
#include "parallel/comm/communicator.h"

namespace trireme::checkpoint {

// Transfer of one stored box from one rank to another.
struct Fetch {
  int from = 0;
  int to = 0;
  std::size_t shard = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Plans how each node gets the boxes its ranks want from shards of which it has no valid copy.
// `holders[shard]` are the nodes with a valid copy; none is empty. Node leaders send and receive.
// The result is the same on every rank.
std::vector<Fetch> plan_fetches(const Manifest& manifest, std::span<const std::vector<int>> holders,
                                const Nodes& nodes, std::span<const std::vector<Piece>> wanted);

// Executes this rank's fetches in order, from the shards in `from` to the shards in `to`, in place.
// A rank that fails to read or write continues, since other ranks wait for it, and throws
// EnvironmentError at the end; the checksums reject what it sent.
void carry_out(std::span<const Fetch> fetches, const Manifest& manifest, Communicator& ranks,
               const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace trireme::checkpoint
