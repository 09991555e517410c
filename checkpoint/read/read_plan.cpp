#include "checkpoint/read/read_plan.h"

#include <algorithm>

#include "checkpoint/format/checksums.h"
#include "checkpoint/read/transfer.h"

namespace trireme::checkpoint {
namespace {

// Smaller amounts are read twice faster than they are shared.
constexpr std::uint64_t kLeastShown = std::uint64_t{256} << 10;

// Calls visit(first, end) for each range of indices where `is` holds.
template <class Is, class Visit>
void for_each_stretch(std::size_t count, const Is& is, const Visit& visit) {
  for (std::size_t first = 0; first < count;) {
    std::size_t end = first;
    while (end < count && is(end)) ++end;
    if (end > first) visit(first, end);
    first = end + 1;
  }
}

// Distributes whole blocks, as many as can be shared at once, or parts of one block.
void deal(ReadPart all, std::vector<std::vector<ReadPart>>& ranks) {
  const std::uint64_t block = checked_bytes(*all.rectangle);
  const std::uint64_t step = std::max(block, ReadPlan::kMostShown / block * block);
  for (std::uint64_t from = all.from; from < all.to; from += step) {
    auto& reader = *std::min_element(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
      return a.size() < b.size();
    });
    const std::uint64_t to = std::min(from + step, all.to);
    for (std::uint64_t at = from; at < to; at += ReadPlan::kMostShown) {
      reader.push_back({all.tensor, all.rectangle, at, std::min(at + ReadPlan::kMostShown, to)});
    }
  }
}

}  // namespace

ReadPlan plan_reads(const Manifest& manifest, std::span<const std::span<const Piece>> wanted,
                    std::size_t own) {
  ReadPlan plan{{}, std::vector<std::vector<ReadPart>>(wanted.size())};
  std::vector<PiecesOf> pieces;
  for (const auto& of_rank : wanted) pieces.push_back(by_tensor(of_rank));
  for (const StoredTensor& tensor : manifest.tensors) {
    for (const Rectangle& stored : tensor.rectangles) {
      std::vector<bool> mine;
      std::vector<int> takers;  // of each block
      for (std::size_t rank = 0; rank < wanted.size(); ++rank) {
        const std::vector<bool> needed =
            BoxTransfer(tensor, stored, pieces[rank]).blocks_needed(stored);
        takers.resize(needed.size());
        for (std::size_t block = 0; block < needed.size(); ++block) takers[block] += needed[block];
        if (rank == own) mine = needed;
      }
      const auto part = [&](std::size_t first, std::size_t end) {
        const std::uint64_t size = checked_bytes(stored);
        return ReadPart{&tensor, &stored, first * size, std::min(end * size, stored.bytes)};
      };
      const auto several = [&](std::size_t block) { return takers[block] > 1; };
      for_each_stretch(takers.size(), several, [&](std::size_t first, std::size_t end) {
        if (part(first, end).bytes() < kLeastShown) return;
        deal(part(first, end), plan.shown);
        std::fill(mine.begin() + static_cast<std::ptrdiff_t>(first),
                  mine.begin() + static_cast<std::ptrdiff_t>(end), false);
      });
      for_each_stretch(
          mine.size(), [&](std::size_t block) { return mine[block]; },
          [&](std::size_t first, std::size_t end) { plan.own.push_back(part(first, end)); });
    }
  }
  return plan;
}

}  // namespace trireme::checkpoint
