#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/window.h"

namespace trireme::checkpoint {

// The bytes of a large rectangle are also checked in blocks, so that who needs a part of it reads
// no more than the blocks the part lies in. All have the same power of two of bytes but the last.
std::uint64_t block_bytes(std::uint64_t bytes);

// What is checked at once of a rectangle: a block, or all of it where its blocks are unknown.
std::uint64_t checked_bytes(const Rectangle& stored);

// Those of a range, in order; the range itself where it is too short for more than one.
std::vector<Range> blocks_of(Range range);

// The CRC32C of a range of `bytes` from those of its blocks.
std::uint32_t joined_crc(const std::vector<std::uint32_t>& blocks, std::uint64_t bytes);

// Eight hex digits a block, without anything between them.
std::string blocks_text(const std::vector<std::uint32_t>& blocks);
// Nothing when it is not the text of the blocks of so many bytes.
std::vector<std::uint32_t> parse_blocks(std::string_view text, std::uint64_t bytes);

}  // namespace trireme::checkpoint
