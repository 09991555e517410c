#include "checkpoint/copy.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "checkpoint/crc32c.h"

namespace trireme::checkpoint {
namespace {

// A tile stays in the L1 cache between checksum and copy. memcpy of such small sizes would use
// regular stores, which read the destination first.
constexpr std::size_t kTile = std::size_t{4} << 10;

void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
  std::size_t done = 0;
#if defined(__x86_64__)
  for (long long word = 0; done + sizeof(word) <= bytes; done += sizeof(word)) {
    std::memcpy(&word, from + done, sizeof(word));
    __builtin_ia32_movnti64(reinterpret_cast<long long*>(to + done), word);
  }
#endif
  std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace

std::uint32_t copy_with_remainder(std::byte* to, std::span<const std::byte> from) {
  std::uint32_t remainder = 0;
  for (std::size_t at = 0; at < from.size(); at += kTile) {
    const std::span<const std::byte> tile = from.subspan(at, std::min(kTile, from.size() - at));
    remainder = remainder_of(tile, remainder);
    copy_past_caches(to + at, tile.data(), tile.size());
  }
  // Non-temporal stores are unordered for other cores until this fence.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return remainder;
}

}  // namespace trireme::checkpoint
