#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/piece.h"
#include "checkpoint/shard_report.h"

namespace trireme::checkpoint {

// Offsets of a rank's pieces in its shard of an in-memory snapshot: raw bytes, each piece aligned
// to a cache line, zeros between them.
struct RawLayout {
  explicit RawLayout(std::span<const Piece> pieces);
  std::vector<std::uint64_t> offsets;
  std::uint64_t bytes = 0;  // size of the shard; never zero
};

// Copies `pieces` to `memory` (layout.bytes). Digests are computed from the bytes read, not from
// those written, so that a later verification detects bad copies.
WrittenShard write_raw_shard(const std::string& name, std::span<const Piece> pieces,
                             const RawLayout& layout, std::span<std::byte> memory);

}  // namespace trireme::checkpoint
