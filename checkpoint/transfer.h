#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/piece.h"

namespace trireme::checkpoint {

using PiecesOf = std::map<std::string_view, std::vector<const Piece*>>;  // by tensor
PiecesOf by_tensor(std::span<const Piece> pieces);

// What goes from one stored rectangle into the pieces that have something of it. Those outlive it.
class Transfer {
 public:
  Transfer() = default;
  Transfer(const StoredTensor& tensor, const Rectangle& stored, const PiecesOf& wanted);

  // Copies what belongs to the pieces of the rectangle's bytes that lie from `at` on.
  void take(std::uint64_t at, std::span<const std::byte> bytes) const;
  // Which of its blocks (blocks.h; all of it where it has none) something is taken of.
  std::vector<bool> blocks_needed(const Rectangle& stored) const;

 private:
  struct Run {
    std::uint64_t from;  // in the rectangle
    std::size_t to;      // in the piece
    std::size_t bytes;
    std::uint64_t end() const { return from + bytes; }
  };
  struct Part {
    std::byte* data;
    std::vector<Run> runs;  // by ascending places
  };
  std::vector<Part> parts_;  // a piece each
};

}  // namespace trireme::checkpoint
