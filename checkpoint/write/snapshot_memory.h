#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/format/piece.h"

namespace trireme::checkpoint {

// Host memory shared with processes forked after its construction: it holds a snapshot of the state
// while that is written and training continues. One buffer, at one address in all of them, reused
// for every snapshot.
class SnapshotMemory {
 public:
  // Reserves address space for `most` bytes; reserve() allocates the pages.
  explicit SnapshotMemory(std::size_t most);
  ~SnapshotMemory();
  SnapshotMemory(const SnapshotMemory&) = delete;
  SnapshotMemory& operator=(const SnapshotMemory&) = delete;

  // Allocates pages for `pieces`, so that copying does not page-fault. Throws EnvironmentError if
  // the machine is out of memory.
  void reserve(std::span<const Piece> pieces);
  struct Copied {
    std::vector<Piece> pieces;  // copies in this memory, aligned for direct I/O
    std::vector<std::vector<std::uint32_t>>
        blocks;  // CRC32C of each block (checksums.h) of each piece
  };
  // Copies the pieces with all threads of this process.
  Copied copy(std::span<const Piece> pieces) const;

  static std::size_t bytes_for(std::span<const Piece> pieces);

 private:
  std::byte* data_ = nullptr;
  std::size_t most_ = 0;
};

}  // namespace trireme::checkpoint
