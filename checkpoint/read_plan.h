#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/piece.h"

namespace trireme::checkpoint {

// Bytes [from, to) of a rectangle, read at once: whole blocks of it, or a part of one.
struct ReadPart {
  const StoredTensor* tensor = nullptr;
  const Rectangle* rectangle = nullptr;
  std::uint64_t from = 0;
  std::uint64_t to = 0;
  std::uint64_t bytes() const { return to - from; }
  bool operator==(const ReadPart&) const = default;
};

// Who reads what of a checkpoint, of ranks that can show each other what they have read. What one
// alone needs it reads for itself; what several do, one of them reads for all.
struct ReadPlan {
  // A rank shows no more at a time.
  static constexpr std::uint64_t kMostShown = std::uint64_t{4} << 20;

  std::vector<ReadPart> own;                 // for this rank alone; of any length
  std::vector<std::vector<ReadPart>> shown;  // by each rank, in this order
};

// `wanted` is what each of the ranks wants, of which this one is `own`: all make the same plan.
// The manifest outlives it.
ReadPlan plan_reads(const Manifest& manifest, std::span<const std::span<const Piece>> wanted,
                    std::size_t own);

}  // namespace trireme::checkpoint
