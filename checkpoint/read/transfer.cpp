#include "checkpoint/read/transfer.h"

#include <algorithm>
#include <cstring>

#include "checkpoint/format/boxes.h"
#include "checkpoint/format/checksums.h"

namespace trireme::checkpoint {

PiecesOf by_tensor(std::span<const Piece> pieces) {
  PiecesOf sorted;
  for (const Piece& piece : pieces) sorted[piece.tensor].push_back(&piece);
  return sorted;
}

BoxTransfer::BoxTransfer(const StoredTensor& tensor, const Rectangle& stored,
                         const PiecesOf& wanted) {
  const auto pieces = wanted.find(tensor.name);
  if (pieces == wanted.end()) return;
  const auto element = static_cast<std::int64_t>(size_of(tensor.dtype));
  for (const Piece* piece : pieces->second) {
    const auto common = intersection(stored.box, piece->box);
    if (!common) continue;
    std::vector<Run>& runs = parts_.emplace_back(Part{piece->data, {}}).runs;
    for_each_run(*common, stored.box, piece->box, [&](auto from, auto to, auto count) {
      runs.push_back({static_cast<std::uint64_t>(from * element),
                      static_cast<std::size_t>(to * element),
                      static_cast<std::size_t>(count * element)});
    });
  }
}

void BoxTransfer::take(std::uint64_t at, std::span<const std::byte> bytes) const {
  const std::uint64_t end = at + bytes.size();
  for (const Part& part : parts_) {
    auto run = std::partition_point(part.runs.begin(), part.runs.end(),
                                    [&](const Run& earlier) { return earlier.end() <= at; });
    for (; run != part.runs.end() && run->from < end; ++run) {
      const std::uint64_t from = std::max(run->from, at);
      std::memcpy(part.data + run->to + (from - run->from), bytes.data() + (from - at),
                  std::min(run->end(), end) - from);
    }
  }
}

std::vector<bool> BoxTransfer::blocks_needed(const Rectangle& stored) const {
  const std::uint64_t size = checked_bytes(stored);
  std::vector<bool> needed((stored.bytes + size - 1) / size, false);
  for (const Part& part : parts_) {
    for (const Run& run : part.runs) {
      for (std::uint64_t block = run.from / size; block * size < run.end(); ++block) {
        needed[block] = true;
      }
    }
  }
  return needed;
}

}  // namespace trireme::checkpoint
