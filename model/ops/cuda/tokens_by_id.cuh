#pragma once
// Included only by kernel sources: sorts tokens by table row. Atomics only count: the order of a
// row's tokens does not depend on them.
#include <cstdint>

#include "model/device/copy.h"
#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/reduce.cuh"
#include "model/ops/cuda/values.cuh"
#include "model/ops/tokens_by_id.h"

namespace trireme::ops::cuda {

constexpr int kSortThreads = 256;
constexpr int kMostCold = 32;  // tokens; a row with more is hot

// Maps tokens to the table rows of this rank.
struct Ids {
  const std::int32_t* ids = nullptr;
  std::int64_t tokens = 0, first = 0, rows = 0;

  // The table row of a token; -1 if it is on another rank.
  __device__ std::int64_t row(std::int64_t token) const {
    const std::int64_t at = ids[token] - first;
    return at >= 0 && at < rows ? at : -1;
  }
};

// A row that has tokens.
struct __align__(16) UsedRow {
  std::int32_t row, start, count, first;  // `first` is its first token
};

// See TokensById. Hot rows are stored from the end on.
struct Sorted {
  std::int32_t *order = nullptr, *counts = nullptr;
  Pack<std::int32_t, 2>* ranges = nullptr;
  UsedRow* used_rows = nullptr;
  std::int64_t most_used_rows = 0;
  std::int32_t *used = nullptr, *cold = nullptr,
               *hot = nullptr;  // lengths of `order` and `used_rows`
};

// Numbers a row's tokens by their arrival, which differs from run to run.
static __global__ __launch_bounds__(kSortThreads) void count_tokens(std::int32_t* counts,
                                                                    std::int32_t* arrival,
                                                                    const Ids ids) {
  const std::int64_t token = std::int64_t{blockIdx.x} * kSortThreads + threadIdx.x;
  if (token >= ids.tokens) return;
  const std::int64_t row = ids.row(token);
  arrival[token] = row < 0 ? -1 : atomicAdd(counts + row, 1);
}

// Takes numbers from `counter`: `mine` for each lane, which gets its first one.
__device__ inline std::int32_t take(std::int32_t* counter, std::int32_t mine) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  std::int32_t end = mine;
#pragma unroll
  for (int apart = 1; apart < 32; apart *= 2) {
    const std::int32_t below = __shfl_up_sync(0xffffffffu, end, static_cast<unsigned>(apart));
    if (lane >= apart) end += below;
  }
  std::int32_t start = 0;
  if (lane == 31 && end > 0) start = atomicAdd(counter, end);
  return __shfl_sync(0xffffffffu, start, 31) + end - mine;
}

// The token that arrived first takes a range for all of its row.
static __global__ __launch_bounds__(kSortThreads) void take_ranges(const Sorted sorted,
                                                                   const std::int32_t* arrival,
                                                                   const Ids ids) {
  const std::int64_t token = std::int64_t{blockIdx.x} * kSortThreads + threadIdx.x;
  const bool takes = token < ids.tokens && arrival[token] == 0;
  const std::int64_t row = takes ? ids.row(token) : 0;
  const std::int32_t count = takes ? sorted.counts[row] : 0;
  const bool is_hot = count > kMostCold;
  const std::int32_t start = take(sorted.used, count);
  const std::int32_t cold = take(sorted.cold, takes && !is_hot ? 1 : 0);
  const std::int32_t hot = take(sorted.hot, is_hot ? 1 : 0);
  const auto last = static_cast<std::int32_t>(sorted.most_used_rows) - 1;
  if (takes) sorted.ranges[row] = {{start, is_hot ? last - hot : cold}};
}

static __global__ __launch_bounds__(kSortThreads) void place_tokens(std::int32_t* placed,
                                                                    const Sorted sorted,
                                                                    const std::int32_t* arrival,
                                                                    const Ids ids) {
  const std::int64_t token = std::int64_t{blockIdx.x} * kSortThreads + threadIdx.x;
  if (token >= ids.tokens || arrival[token] < 0) return;
  const std::int32_t start = sorted.ranges[ids.row(token)][0];
  placed[start + arrival[token]] = static_cast<std::int32_t>(token);
}

// Orders the tokens of each row: a warp counts those before its token.
static __global__ __launch_bounds__(kSortThreads) void rank_tokens(const Sorted sorted,
                                                                   const std::int32_t* placed,
                                                                   const Ids ids) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t at = std::int64_t{blockIdx.x} * (kSortThreads / 32) + threadIdx.x / 32;
  const std::int64_t row = at < ids.tokens ? ids.row(at) : -1;
  if (row < 0) return;
  const auto token = static_cast<std::int32_t>(at);
  const auto [start, place] = sorted.ranges[row].words;
  const std::int32_t count = sorted.counts[row];
  std::int32_t rank = 0;
#pragma unroll 4
  for (std::int32_t i = lane; i < count; i += 32) rank += placed[start + i] < token ? 1 : 0;
  rank = warp_sum(rank);
  if (lane != 0) return;
  sorted.order[start + rank] = token;
  if (rank == 0) {
    sorted.used_rows[place] = {static_cast<std::int32_t>(row), start, count, token};
  }
}

inline Ids ids_of(Tensor ids, std::int64_t first, std::int64_t rows) {
  return {.ids = ids.as<std::int32_t>(), .tokens = ids.count(), .first = first, .rows = rows};
}

inline Sorted sort_tokens(Stream& stream, const TokensById& room, const Ids& ids) {
  auto* const totals = room.counts.as<std::int32_t>() + ids.rows;
  const Sorted sorted{.order = room.order.as<std::int32_t>(),
                      .counts = room.counts.as<std::int32_t>(),
                      .ranges = reinterpret_cast<Pack<std::int32_t, 2>*>(room.ranges.data),
                      .used_rows = reinterpret_cast<UsedRow*>(room.used_rows.data),
                      .most_used_rows = room.used_rows.rows(),
                      .used = totals,
                      .cold = totals + 1,
                      .hot = totals + 2};
  auto* const arrival = room.arrival.as<std::int32_t>();
  auto* const placed = arrival + ids.tokens;
  using trireme::cuda::extent;
  using trireme::cuda::launch;
  using trireme::cuda::parts;
  const auto blocks = extent(parts(ids.tokens, kSortThreads));
  fill_bytes(stream, room.counts.data, 0, room.counts.bytes());
  launch(count_tokens, blocks, kSortThreads, 0, stream, sorted.counts, arrival, ids);
  launch(take_ranges, blocks, kSortThreads, 0, stream, sorted, arrival, ids);
  launch(place_tokens, blocks, kSortThreads, 0, stream, placed, sorted, arrival, ids);
  launch(rank_tokens, extent(parts(ids.tokens, kSortThreads / 32)), kSortThreads, 0, stream, sorted,
         placed, ids);
  return sorted;
}

}  // namespace trireme::ops::cuda
