#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/piece.h"
#include "checkpoint/shard_writer.h"

namespace trireme::checkpoint {

// "shard-00000-of-00001.raw"
std::string raw_shard_name(std::size_t shard, std::size_t of);

// Where a rank's pieces lie in its shard of a snapshot in memory: their bytes alone, each
// piece from a cache line's beginning on, zeros between them.
struct RawLayout {
  explicit RawLayout(std::span<const Piece> pieces);
  std::vector<std::uint64_t> offsets;
  std::uint64_t bytes = 0;  // of the whole shard; never zero
};

// Copies `pieces` to `memory`, of layout.bytes, and takes the digests of what it reads from
// them, not of what it has written: a later reader compares the two.
WrittenShard write_raw_shard(const std::string& name, std::span<const Piece> pieces,
                             const RawLayout& layout, std::span<std::byte> memory);

}  // namespace trireme::checkpoint
