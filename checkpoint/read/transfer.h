#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/piece.h"

namespace trireme::checkpoint {

using PiecesOf = std::map<std::string_view, std::vector<const Piece*>>;  // by tensor
PiecesOf by_tensor(std::span<const Piece> pieces);

// Copies from one stored box to the pieces that overlap it. The pieces outlive it.
class BoxTransfer {
 public:
  BoxTransfer() = default;
  BoxTransfer(const StoredTensor& tensor, const Rectangle& stored, const PiecesOf& wanted);

  // Copies from `bytes`, which are at offset `at` of the box, to the pieces.
  void take(std::uint64_t at, std::span<const std::byte> bytes) const;
  // Which blocks of the box (checksums.h; a single one if it has none) contain wanted bytes.
  std::vector<bool> blocks_needed(const Rectangle& stored) const;

 private:
  struct Run {
    std::uint64_t from;  // offset in the box
    std::size_t to;      // offset in the piece
    std::size_t bytes;
    std::uint64_t end() const { return from + bytes; }
  };
  struct Part {
    std::byte* data;
    std::vector<Run> runs;  // ascending
  };
  std::vector<Part> parts_;  // one per piece
};

}  // namespace trireme::checkpoint
