#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/piece.h"

namespace trireme::checkpoint {

// Host memory that the processes forked after it was made share with us: a snapshot of the
// state lies there while it is written and the state itself changes again. One buffer,
// used again and again.
class SnapshotMemory {
 public:
  // Room for `most` bytes. They are taken from the machine by reserve(), not here.
  explicit SnapshotMemory(std::size_t most);
  ~SnapshotMemory();
  SnapshotMemory(const SnapshotMemory&) = delete;
  SnapshotMemory& operator=(const SnapshotMemory&) = delete;

  // Takes what `pieces` need, so that copying them never waits for the machine.
  // EnvironmentError when it has no such memory.
  void reserve(std::span<const Piece> pieces);
  struct Copied {
    std::vector<Piece> pieces;  // as they lie here, each where direct I/O can write it from
    std::vector<std::vector<std::uint32_t>> blocks;  // CRC32C of each block (blocks.h) of each
  };
  // Copies them here, on all threads of this process.
  Copied copy(std::span<const Piece> pieces) const;
  // Where the copies of `pieces` lie, for a process that knows no more than their shapes.
  std::vector<Piece> placed(std::span<const Piece> pieces) const;

  static std::size_t bytes_for(std::span<const Piece> pieces);

 private:
  std::byte* data_ = nullptr;
  std::size_t most_ = 0;
};

}  // namespace trireme::checkpoint
