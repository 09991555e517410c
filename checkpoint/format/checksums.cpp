#include "checkpoint/format/checksums.h"

#include <algorithm>
#include <bit>

#include "model/base/hex.h"

namespace trireme::checkpoint {
namespace {

constexpr std::uint64_t kLeastBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostBlocks = 256;  // keeps manifests small
constexpr std::size_t kDigits = 8;

}  // namespace

std::optional<std::uint32_t> share_of(const Box& box, Shape logical, std::size_t element,
                                      std::uint32_t crc32c) {
  std::uint64_t end = 0;
  bool one = false;
  for_each_run(box, box, all_of(logical), [&](auto at, auto in_tensor, auto count) {
    one = at == 0 && count == box.extent.count();
    end = static_cast<std::uint64_t>(in_tensor + count) * element;
  });
  if (!one) return std::nullopt;
  const auto bytes = static_cast<std::uint64_t>(box.extent.count()) * element;
  const std::uint32_t remainder = crc_from(crc32c, bytes);  // crc_from() is its own inverse
  return shifted(remainder, static_cast<std::uint64_t>(logical.count()) * element - end);
}

std::uint64_t block_bytes(std::uint64_t bytes) {
  return std::max(kLeastBytes, std::bit_ceil((bytes + kMostBlocks - 1) / kMostBlocks));
}

std::uint64_t checked_bytes(const Rectangle& stored) {
  return stored.blocks.empty() ? std::max<std::uint64_t>(stored.bytes, 1)
                               : block_bytes(stored.bytes);
}

std::vector<Range> blocks_of(Range range) {
  std::vector<Range> blocks;
  const std::uint64_t size = block_bytes(range.bytes);
  for (std::uint64_t at = 0; at < range.bytes; at += size) {
    blocks.push_back({range.offset + at, std::min(size, range.bytes - at)});
  }
  return blocks;
}

std::uint32_t joined_crc(const std::vector<std::uint32_t>& blocks, std::uint64_t bytes) {
  std::uint32_t remainder = 0;
  const std::vector<Range> ranges = blocks_of({0, bytes});
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    // crc_from() is its own inverse.
    remainder = shifted(remainder, ranges[i].bytes) ^ crc_from(blocks[i], ranges[i].bytes);
  }
  return crc_from(remainder, bytes);
}

std::string blocks_text(const std::vector<std::uint32_t>& blocks) {
  std::string text;
  for (const std::uint32_t block : blocks) text += hex(block);
  return text;
}

std::vector<std::uint32_t> parse_blocks(std::string_view text, std::uint64_t bytes) {
  if (bytes == 0 || text.size() != blocks_of({0, bytes}).size() * kDigits) return {};
  std::vector<std::uint32_t> blocks;
  for (; !text.empty(); text.remove_prefix(kDigits)) {
    const auto block = from_hex<std::uint32_t>(text.substr(0, kDigits));
    if (!block) return {};
    blocks.push_back(*block);
  }
  return blocks;
}

}  // namespace trireme::checkpoint
