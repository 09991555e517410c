#include "checkpoint/write/snapshot_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "checkpoint/format/checksums.h"
#include "checkpoint/format/crc32c.h"
#include "checkpoint/read/window.h"
#include "model/base/error.h"
#include "model/device/cpu/threads.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; missing in older C libraries
#endif

namespace trireme::checkpoint {
namespace {

std::size_t room_for(const Piece& piece) {
  return (piece.bytes() + kBlock - 1) / kBlock * kBlock;
}

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

// Copies `from`, whose size is a multiple of 8, and returns its remainder (crc32c.h) in one pass
// over memory. Uses non-temporal stores, since the copy is not read soon.
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

}  // namespace

SnapshotMemory::SnapshotMemory(std::size_t most) : most_((most + kBlock - 1) / kBlock * kBlock) {
  if (most_ == 0) return;
  void* const memory = ::mmap(nullptr, most_, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw EnvironmentError(say("no ", most_, " bytes of address space for snapshots of the state: ",
                               std::strerror(errno)));
  }
  data_ = static_cast<std::byte*>(memory);
}

SnapshotMemory::~SnapshotMemory() {
  if (data_) ::munmap(data_, most_);
}

std::size_t SnapshotMemory::bytes_for(std::span<const Piece> pieces) {
  std::size_t bytes = 0;
  for (const Piece& piece : pieces) bytes += room_for(piece);
  return bytes;
}

void SnapshotMemory::reserve(std::span<const Piece> pieces) {
  const std::size_t bytes = bytes_for(pieces);
  require(bytes <= most_, "a snapshot of ", bytes, " bytes, planned ", most_);
  if (bytes == 0 || ::madvise(data_, bytes, MADV_POPULATE_WRITE) == 0) return;
  const int reason = errno;
  if (reason == EINVAL) {  // older kernel
    for (std::size_t at = 0; at < bytes; at += kBlock) data_[at] = std::byte{0};
    return;
  }
  throw EnvironmentError(say("no ", bytes >> 20, " MiB of memory for a snapshot of the state: ",
                             std::strerror(reason), " (checkpoint.async = false needs none)"));
}

SnapshotMemory::Copied SnapshotMemory::copy(std::span<const Piece> pieces) const {
  struct Block {
    std::uint64_t at;  // offset in all bytes
    std::size_t piece;
    Range range;
    std::uint32_t* crc32c;
  };
  require(bytes_for(pieces) <= most_, "a snapshot of ", bytes_for(pieces), " bytes, planned ",
          most_);
  Copied copied{{pieces.begin(), pieces.end()},
                std::vector<std::vector<std::uint32_t>>(pieces.size())};
  std::vector<Block> blocks;
  std::uint64_t bytes = 0;
  std::byte* to = data_;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    copied.pieces[i].data = to;
    to += room_for(pieces[i]);
    const std::vector<Range> ranges = blocks_of({0, pieces[i].bytes()});
    copied.blocks[i].resize(ranges.size());
    for (std::size_t block = 0; block < ranges.size(); ++block) {
      blocks.push_back({bytes, i, ranges[block], &copied.blocks[i][block]});
      bytes += ranges[block].bytes;
    }
  }
  constexpr std::int64_t kGrain = 1 << 20;
  cpu::parallel_for(static_cast<std::int64_t>(bytes), kGrain, [&](auto first, auto last) {
    const auto before = [](const Block& block, auto at) {
      return block.at < static_cast<std::uint64_t>(at);
    };
    const auto end = std::lower_bound(blocks.begin(), blocks.end(), last, before);
    for (auto block = std::lower_bound(blocks.begin(), blocks.end(), first, before); block != end;
         ++block) {
      const Range& range = block->range;
      const std::span<const std::byte> from(pieces[block->piece].data + range.offset, range.bytes);
      *block->crc32c = crc_from(
          copy_with_remainder(copied.pieces[block->piece].data + range.offset, from), range.bytes);
    }
  });
  return copied;
}

}  // namespace trireme::checkpoint
