#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/window.h"

namespace trireme::checkpoint {

// Large boxes have one checksum per block too, so that a reader of part of a box reads only the
// blocks that contain the part. All blocks but the last have the same size, a power of two.
std::uint64_t block_bytes(std::uint64_t bytes);

// Bytes covered by one checksum: a block, or the whole box if it has no block checksums.
std::uint64_t checked_bytes(const Rectangle& stored);

// The blocks of a range, in order; the range itself if it is a single block.
std::vector<Range> blocks_of(Range range);

// The CRC32C of a range of `bytes` from the CRC32Cs of its blocks.
std::uint32_t joined_crc(const std::vector<std::uint32_t>& blocks, std::uint64_t bytes);

// Eight hex digits per block, without separators.
std::string blocks_text(const std::vector<std::uint32_t>& blocks);
// Empty unless `text` has one checksum for each block of `bytes`.
std::vector<std::uint32_t> parse_blocks(std::string_view text, std::uint64_t bytes);

}  // namespace trireme::checkpoint
