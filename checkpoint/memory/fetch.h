#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/memory/nodes.h"
#include "checkpoint/piece.h"
#include "parallel/comm/communicator.h"

namespace trireme::checkpoint {

// A rectangle's bytes of one shard, to travel from one rank to another.
struct Fetch {
  int from = 0;
  int to = 0;
  std::size_t shard = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// What each node needs of shards that it has no good one of, for the pieces that its ranks
// want, from a node that has. `holders[shard]`: nodes; none is empty. Leaders send and
// receive. The same on every rank.
std::vector<Fetch> plan_fetches(const Manifest& manifest, std::span<const std::vector<int>> holders,
                                const Nodes& nodes, std::span<const std::vector<Piece>> wanted);

// This rank's part of them, one after the other: out of the shards in `from`, into those in
// `to`, in place. A rank that cannot read or write goes on, lest others wait for it; it
// then throws EnvironmentError at the end, and what it sent will not pass for the shard's.
void carry_out(std::span<const Fetch> fetches, const Manifest& manifest, Communicator& ranks,
               const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace trireme::checkpoint
