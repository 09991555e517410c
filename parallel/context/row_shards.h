#pragma once
#include <cstdint>
#include <span>

namespace trireme {

// The rows of a sequence must be a multiple of it to be sharded over `ranks`.
constexpr std::int64_t row_multiple(int ranks) {
  return ranks == 1 ? 1 : 2 * ranks;
}

// Shards the rows of a sequence over context ranks: rows [ranks, seq_len / ranks], for each rank
// the rows it holds, ascending. Every rank has equally many rows and about as many query-key pairs,
// where row t sees the rows [document_start[t], t]. A function of its arguments alone, so that all
// ranks find the same.
// A rank holds chunks of equal length. Of one document these are chunks r and 2 ranks - 1 - r of
// 2 ranks (The Llama 3 Herd of Models, 2024, section 3.3.2), which have equal pairs; where
// documents make two chunks unequal a rank holds more of them, of multiples of 64 rows if possible.
void shard_rows(std::span<std::int32_t> rows, std::span<const std::int32_t> document_start,
                int ranks);

// Query-key pairs of the queries `rows`.
std::int64_t query_key_pairs(std::span<const std::int32_t> rows,
                             std::span<const std::int32_t> document_start);

}  // namespace trireme
