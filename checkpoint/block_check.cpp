#include "checkpoint/block_check.h"

#include <algorithm>

#include "checkpoint/blocks.h"
#include "checkpoint/crc32c.h"
#include "model/base/error.h"
#include "model/base/hex.h"

namespace trireme::checkpoint {

void BlockCheck::see(std::uint64_t at, std::span<const std::byte> bytes) {
  const std::uint64_t size = checked_bytes(*stored_);
  while (!bytes.empty()) {
    const std::uint64_t from = at / size * size;
    const std::uint64_t to = std::min(from + size, stored_->bytes);
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), to - at));
    remainder_ = remainder_of(bytes.first(n), at == from ? 0 : remainder_);
    at += n;
    bytes = bytes.subspan(n);
    if (at == to) compare(from, to);
  }
}

void BlockCheck::compare(std::uint64_t from, std::uint64_t to) const {
  const std::uint32_t got = crc_from(remainder_, to - from);
  const std::uint32_t expected =
      stored_->blocks.empty() ? stored_->crc32c : stored_->blocks[from / checked_bytes(*stored_)];
  if (got == expected) return;
  throw CheckpointError(say(file_.string(), ": damaged: tensor ", tensor_->name, " at byte ",
                            stored_->offset + from, ": CRC32C ", hex(got), ", expected ",
                            hex(expected)));
}

}  // namespace trireme::checkpoint
