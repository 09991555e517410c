#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/piece.h"

namespace trireme::checkpoint {

// Bytes [from, to) of a stored box, read at once: whole blocks, or part of one.
struct ReadPart {
  const StoredTensor* tensor = nullptr;
  const Rectangle* rectangle = nullptr;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t bytes() const { return to - from; }
  bool operator==(const ReadPart&) const = default;
};

// Assigns reads of a checkpoint to the ranks of a host. A rank reads what it alone needs; one rank
// reads for all what several need.
struct ReadPlan {
  // Most bytes that a rank shares at a time.
  static constexpr std::uint64_t kMostShown = std::uint64_t{4} << 20;

  std::vector<ReadPart> own;                 // needed by this rank only; of any length
  std::vector<std::vector<ReadPart>> shown;  // by reading rank, in this order
};

// `wanted` are the pieces of each rank; this rank is `own`. All ranks compute the same plan. The
// manifest outlives it.
ReadPlan plan_reads(const Manifest& manifest, std::span<const std::span<const Piece>> wanted,
                    std::size_t own);

}  // namespace trireme::checkpoint
