#include "parallel/context/row_shards.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

#include "model/base/error.h"

namespace trireme {
namespace {

constexpr std::int64_t kTileRows = 64;  // of the attention kernels

// Excess of the heaviest rank over the mean, in 1/1000 of it, above which chunks are swapped,
// chunks of fewer tiles are tried, and chunks below a tile, of which kernels compute more masked
// pairs.
constexpr std::int64_t kSwapAbove = 5, kFewerTilesAbove = 10, kBelowTileAbove = 30;
constexpr int kSwapsPerRank = 8;

// Query-key pairs of the rows before each row, and of all: [seq_len + 1].
std::vector<std::int64_t> pairs_before(std::span<const std::int32_t> document_start) {
  std::vector<std::int64_t> before(document_start.size() + 1);
  for (std::size_t t = 0; t < document_start.size(); ++t) {
    before[t + 1] = before[t] + static_cast<std::int64_t>(t) - document_start[t] + 1;
  }
  return before;
}

// An assignment of chunks of equal length to ranks, equally many to each.
struct ChunkShards {
  std::int64_t chunk_rows = 0;
  std::vector<std::vector<std::int32_t>> chunks = {};  // of each rank
  std::vector<std::int64_t> pairs = {};                // of each rank

  std::int64_t most() const { return *std::ranges::max_element(pairs); }
};

bool is_above(std::int64_t most, std::int64_t mean, std::int64_t per_mille) {
  return most - mean > mean * per_mille / 1000;
}

// Deals chunks of `chunk_rows` rows by their pairs.
class ChunkDealer {
 public:
  ChunkDealer(const std::vector<std::int64_t>& before, int ranks, std::int64_t chunk_rows)
      : mean_(before.back() / ranks) {
    const std::int64_t chunks = (std::ssize(before) - 1) / chunk_rows;
    for (std::int64_t c = 0; c < chunks; ++c) {
      const auto first = static_cast<std::size_t>(c * chunk_rows);
      pairs_.push_back(before[first + static_cast<std::size_t>(chunk_rows)] - before[first]);
    }
    deal(ranks, chunk_rows);
    for (int swaps = kSwapsPerRank * ranks; swaps > 0; --swaps) {
      if (!is_above(shards_.most(), mean_, kSwapAbove) || !swap_chunks()) break;
    }
  }

  ChunkShards result() && { return std::move(shards_); }

 private:
  std::int64_t of(std::int32_t chunk) const { return pairs_[static_cast<std::size_t>(chunk)]; }
  bool is_heavier(std::int32_t a, std::int32_t b) const {
    return of(a) != of(b) ? of(a) > of(b) : a < b;
  }

  // The heaviest chunk first, each to the rank with the fewest pairs that lacks a chunk. Of two
  // chunks a rank has the k-th and the k-th last by pairs, which no other deal improves.
  void deal(int ranks, std::int64_t chunk_rows) {
    const std::size_t each = pairs_.size() / static_cast<std::size_t>(ranks);
    shards_.chunk_rows = chunk_rows;
    shards_.chunks.resize(static_cast<std::size_t>(ranks));
    shards_.pairs.resize(static_cast<std::size_t>(ranks));
    std::vector<std::int32_t> heaviest(pairs_.size());
    std::iota(heaviest.begin(), heaviest.end(), 0);
    std::ranges::sort(heaviest, [this](auto a, auto b) { return is_heavier(a, b); });
    using Load = std::pair<std::int64_t, std::size_t>;  // pairs, rank
    std::priority_queue<Load, std::vector<Load>, std::greater<>> open;
    for (std::size_t rank = 0; rank < shards_.chunks.size(); ++rank) open.emplace(0, rank);
    for (const std::int32_t chunk : heaviest) {
      const std::size_t rank = open.top().second;
      open.pop();
      shards_.chunks[rank].push_back(chunk);
      shards_.pairs[rank] += of(chunk);
      if (shards_.chunks[rank].size() < each) open.emplace(shards_.pairs[rank], rank);
    }
  }

  // Exchanges two chunks of the ranks with the most and the fewest pairs, so that these become as
  // equal as one exchange can make them. False: no exchange helps.
  bool swap_chunks() {
    const auto [least, most] = std::ranges::minmax_element(shards_.pairs);
    const std::int64_t gap = *most - *least;
    auto& from = shards_.chunks[static_cast<std::size_t>(most - shards_.pairs.begin())];
    auto& to = shards_.chunks[static_cast<std::size_t>(least - shards_.pairs.begin())];
    std::int64_t best = gap;  // between both ranks after the exchange
    std::size_t best_i = 0, best_j = 0;
    // Both lists descend: i + 1 moves fewer pairs, j + 1 more.
    for (std::size_t i = 0, j = 0; i < from.size() && j < to.size();) {
      const std::int64_t left = gap - 2 * (of(from[i]) - of(to[j]));
      if (std::abs(left) < best) {
        best = std::abs(left);
        best_i = i;
        best_j = j;
      }
      ++(left < 0 ? i : j);
    }
    if (best == gap) return false;
    const std::int64_t moved = of(from[best_i]) - of(to[best_j]);
    *most -= moved;
    *least += moved;
    std::swap(from[best_i], to[best_j]);
    for (auto* chunks : {&from, &to}) {
      std::ranges::sort(*chunks, [this](auto a, auto b) { return is_heavier(a, b); });
    }
    return true;
  }

  std::int64_t mean_;
  std::vector<std::int64_t> pairs_;  // of each chunk
  ChunkShards shards_;               // each rank's heaviest chunk first
};

// The next shorter chunks: the most rows, at most half of `chunk_rows`, that divide `own_rows`;
// whole tiles if any do.
std::int64_t finer(std::int64_t own_rows, std::int64_t chunk_rows) {
  const std::int64_t most = chunk_rows / 2;
  for (std::int64_t rows = most / kTileRows * kTileRows; rows > 0; rows -= kTileRows) {
    if (own_rows % rows == 0) return rows;
  }
  std::int64_t rows = most;
  while (own_rows % rows != 0) --rows;
  return rows;
}

ChunkShards best_shards(const std::vector<std::int64_t>& before, int ranks) {
  const std::int64_t own_rows = (std::ssize(before) - 1) / ranks, mean = before.back() / ranks;
  std::int64_t chunk_rows = own_rows / 2;
  ChunkShards best = ChunkDealer(before, ranks, chunk_rows).result();
  while (chunk_rows > 1) {
    chunk_rows = finer(own_rows, chunk_rows);
    const std::int64_t enough = chunk_rows < kTileRows ? kBelowTileAbove : kFewerTilesAbove;
    if (!is_above(best.most(), mean, enough)) break;
    ChunkShards shards = ChunkDealer(before, ranks, chunk_rows).result();
    if (shards.most() < best.most()) best = std::move(shards);
  }
  return best;
}

}  // namespace

void shard_rows(std::span<std::int32_t> rows, std::span<const std::int32_t> document_start,
                int ranks) {
  require(rows.size() == document_start.size(), "shards of ", rows.size(),
          " rows for a sequence of ", document_start.size());
  require(!rows.empty() && std::ssize(rows) % row_multiple(ranks) == 0, "cannot shard ",
          rows.size(), " rows among ", ranks, " ranks");
  if (ranks == 1) {
    std::iota(rows.begin(), rows.end(), 0);
    return;
  }
  ChunkShards shards = best_shards(pairs_before(document_start), ranks);
  auto out = rows.begin();
  for (auto& chunks : shards.chunks) {
    std::ranges::sort(chunks);
    for (const std::int32_t chunk : chunks) {
      const auto first = static_cast<std::int32_t>(chunk * shards.chunk_rows);
      std::iota(out, out + shards.chunk_rows, first);
      out += shards.chunk_rows;
    }
  }
}

std::int64_t query_key_pairs(std::span<const std::int32_t> rows,
                             std::span<const std::int32_t> document_start) {
  std::int64_t pairs = 0;
  for (const std::int32_t t : rows) pairs += t - document_start[static_cast<std::size_t>(t)] + 1;
  return pairs;
}

}  // namespace trireme
