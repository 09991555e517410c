#include "model/ops/expert_rows.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "model/device/cuda/shared.cuh"
#include "model/ops/cuda/flat.cuh"
#include "model/ops/cuda/reduce.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::dynamic_shared;
using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

// A sort by counting: a warp per chunk of pairs counts its experts, a block adds the counts of
// earlier chunks, and the warps place their pairs. The counts of chunks after the first fit where
// the pairs' order will be.
struct Sort {
  std::int32_t *starts = nullptr, *pairs = nullptr, *row_of = nullptr;
  const std::int32_t* expert = nullptr;
  int experts = 0, chunks = 0;
  std::int32_t count = 0, chunk = 0;  // of all pairs; of a chunk's

  __device__ std::int32_t* counts(int of_chunk) const {
    return of_chunk == 0 ? starts : pairs + std::int64_t{of_chunk - 1} * experts;
  }
  __device__ std::int32_t first() const { return static_cast<std::int32_t>(blockIdx.x) * chunk; }
  __device__ std::int32_t end() const { return min(count - first(), chunk) + first(); }
};

// Lanes whose expert is this lane's; -1 is none's.
__device__ unsigned lanes_alike(std::int32_t expert, int experts) {
  unsigned alike = __ballot_sync(0xffffffffu, expert >= 0);
  for (int bit = 0; (experts - 1) >> bit != 0; ++bit) {
    const unsigned set = __ballot_sync(0xffffffffu, expert >> bit & 1);
    alike &= (expert >> bit & 1) != 0 ? set : ~set;
  }
  return alike;
}

// Calls body(pair, expert, its number) for the chunk's pairs, numbered within each expert from
// numbers[expert] on. A warp calls it.
template <class Body>
__device__ void number_pairs(const Sort& sort, std::int32_t* numbers, const Body& body) {
  const int lane = static_cast<int>(threadIdx.x);
  const unsigned lower = (1u << lane) - 1;
  const std::int32_t end = sort.end();
  std::int32_t next = sort.first() + lane < end ? sort.expert[sort.first() + lane] : -1;
  for (std::int32_t at = sort.first(); at < end; at += 32) {
    const std::int32_t expert = next;
    next = end - at > 32 + lane ? sort.expert[at + 32 + lane] : -1;
    const unsigned alike = lanes_alike(expert, sort.experts);
    const int before = __popc(alike & lower);
    const std::int32_t number = expert < 0 ? 0 : numbers[expert] + before;
    if (expert >= 0) body(at + lane, number);
    __syncwarp();
    if (expert >= 0 && alike >> lane == 1) numbers[expert] = number + 1;
    __syncwarp();
  }
}

__global__ __launch_bounds__(32) void count_chunks(const Sort sort) {
  auto* const numbers = dynamic_shared<std::int32_t>();
  for (int e = static_cast<int>(threadIdx.x); e < sort.experts; e += 32) numbers[e] = 0;
  __syncwarp();
  number_pairs(sort, numbers, [](std::int32_t, std::int32_t) {});
  std::int32_t* const counts = sort.counts(static_cast<int>(blockIdx.x));
  for (int e = static_cast<int>(threadIdx.x); e < sort.experts; e += 32) counts[e] = numbers[e];
}

constexpr int kAddThreads = 512;

// Counts of chunks become the first rows of their experts, one expert per thread.
__global__ __launch_bounds__(kAddThreads) void add_chunks(const Sort sort) {
  __shared__ std::int32_t ends[kAddThreads];
  const int thread = static_cast<int>(threadIdx.x);
  std::int32_t before = 0;
  for (int first = 0; first < sort.experts; first += kAddThreads) {
    const int expert = first + thread;
    const bool exists = expert < sort.experts;
    std::int32_t total = 0;
#pragma unroll 8
    for (int chunk = 0; chunk < sort.chunks; ++chunk) {
      if (exists) total += sort.counts(chunk)[expert];
    }
    ends[thread] = total;
    for (int apart = 1; apart < kAddThreads; apart *= 2) {
      __syncthreads();
      const std::int32_t below = thread >= apart ? ends[thread - apart] : 0;
      __syncthreads();
      ends[thread] += below;
    }
    __syncthreads();
    std::int32_t start = before + ends[thread] - total;
    before += ends[kAddThreads - 1];
#pragma unroll 8
    for (int chunk = 0; chunk < sort.chunks; ++chunk) {
      if (!exists) continue;
      const std::int32_t count = sort.counts(chunk)[expert];
      sort.counts(chunk)[expert] = start;
      start += count;
    }
    __syncthreads();
  }
  if (thread == 0) sort.starts[sort.experts] = before;
}

__global__ __launch_bounds__(32) void number_rows(const Sort sort) {
  auto* const numbers = dynamic_shared<std::int32_t>();
  const std::int32_t* const counts = sort.counts(static_cast<int>(blockIdx.x));
  for (int e = static_cast<int>(threadIdx.x); e < sort.experts; e += 32) numbers[e] = counts[e];
  __syncwarp();
  number_pairs(sort, numbers,
               [&](std::int32_t pair, std::int32_t row) { sort.row_of[pair] = row; });
}

__global__ __launch_bounds__(kFlatThreads) void place_pairs(std::int32_t* pairs,
                                                            const std::int32_t* row_of,
                                                            std::int64_t count) {
  over_flat<1>(count, [&]<int n>(Count<n>, std::int64_t pair) {
    pairs[row_of[pair]] = static_cast<std::int32_t>(pair);
  });
}

constexpr int kRowThreads = 256;

// Rows of a kernel, each by a team along x.
struct Rows {
  std::int64_t count = 0, width = 0, top_k = 0;
  const std::int32_t *pairs = nullptr, *row_of = nullptr;

  __device__ std::int64_t row() const {
    return std::int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  }
};

// Calls body(column) for this lane's packs of n columns.
template <int n, class Body>
__device__ __forceinline__ void each_pack(const Rows& rows, const Body& body) {
#pragma unroll 4
  for (std::int64_t i = std::int64_t{threadIdx.x} * n; i < rows.width;
       i += std::int64_t{blockDim.x} * n)
    body(i);
}

template <int n, class T>
__global__ __launch_bounds__(kRowThreads) void gather_kernel(T* y, const T* x, const Rows rows) {
  const std::int64_t row = rows.row();
  if (row >= rows.count) return;
  const std::int64_t token = rows.pairs[row] / rows.top_k;
  const T* const from = x + token * rows.width;
  T* const to = y + row * rows.width;
  each_pack<n>(
      rows, [&](std::int64_t i) { *reinterpret_cast<Pack<T, n>*>(to + i) = pack_at<n>(from + i); });
}

template <int n, class T>
__global__ __launch_bounds__(kRowThreads) void combine_kernel(T* y, const T* x,
                                                              const Sum<T>* weights,
                                                              const Rows rows) {
  const std::int64_t token = rows.row();
  if (token >= rows.count) return;
  const int top_k = static_cast<int>(rows.top_k);
  const std::int32_t* const row_of = rows.row_of + token * top_k;
  const Sum<T>* const weight = weights + (weights != nullptr ? token * top_k : 0);
  for (std::int64_t i = std::int64_t{threadIdx.x} * n; i < rows.width;
       i += std::int64_t{blockDim.x} * n) {
    Sum<T> sum[n] = {};
#pragma unroll 4
    for (int k = 0; k < top_k; ++k) {
      Sum<T> value[n];
      load(value, x + row_of[k] * rows.width + i);
      const Sum<T> factor = weights != nullptr ? weight[k] : Sum<T>(1);
#pragma unroll
      for (int e = 0; e < n; ++e) sum[e] += factor * value[e];
    }
    store(y + token * rows.width + i, sum);
  }
}

template <int n, class T>
__global__ __launch_bounds__(kRowThreads) void weigh_kernel(Sum<T>* dweights, T* act, T* dact,
                                                            const Sum<T>* weights,
                                                            const Rows rows) {
  using A = Sum<T>;
  __shared__ A rooms[kRowThreads / 64][2][32];  // of teams larger than a warp
  Team<A> team{rooms[threadIdx.y % (kRowThreads / 64)], static_cast<int>(threadIdx.x),
               static_cast<int>(blockDim.x)};
  const std::int64_t row = rows.row();
  const bool exists = row < rows.count;
  const std::int64_t pair = exists && rows.pairs != nullptr ? rows.pairs[row] : row;
  const A weight = exists ? weights[pair] : A(0);
  A dot = 0;
  for (std::int64_t i = std::int64_t{threadIdx.x} * n; exists && i < rows.width;
       i += std::int64_t{blockDim.x} * n) {
    T *const a_at = act + row * rows.width + i, *const b_at = dact + row * rows.width + i;
    A a[n], b[n];
    load(a, a_at);
    load(b, b_at);
#pragma unroll
    for (int e = 0; e < n; ++e) {
      dot += a[e] * b[e];
      a[e] *= weight;
      b[e] *= weight;
    }
    store(a_at, a);
    store(b_at, b);
  }
  dot = team.sum(dot);
  if (exists && team.lane == 0) dweights[pair] = dot;
}

// As many lanes per row as it has packs, at most a block.
template <int n, class... Parameters>
void over_rows(Stream& stream, void (*kernel)(Parameters...), const Rows& rows,
               std::type_identity_t<Parameters>... arguments) {
  const auto packs = static_cast<std::uint64_t>(std::max<std::int64_t>(parts(rows.width, n), 1));
  const auto lanes =
      std::min<std::int64_t>(kRowThreads, static_cast<std::int64_t>(std::bit_ceil(packs)));
  const std::int64_t teams = kRowThreads / lanes;
  launch(kernel, extent(parts(rows.count, teams)), dim3(extent(lanes), extent(teams)), 0, stream,
         arguments...);
}

Rows rows_of(const ExpertRows& rows, std::int64_t count, std::int64_t width) {
  return {.count = count,
          .width = width,
          .top_k = rows.row_of ? rows.row_of.width() : 1,
          .pairs = at<std::int32_t>(rows.pairs),
          .row_of = at<std::int32_t>(rows.row_of)};
}

}  // namespace

void order_by_expert(Stream& stream, const ExpertRows& rows, Tensor experts) {
  constexpr std::int64_t kPairs = 1024, kMostChunks = 512;
  const std::int64_t count = experts.count(), width = rows.starts.count() - 1;
  const std::int64_t chunks =
      std::clamp<std::int64_t>(count / std::max(width, kPairs), 1, kMostChunks);
  const Sort sort{.starts = rows.starts.as<std::int32_t>(),
                  .pairs = rows.pairs.as<std::int32_t>(),
                  .row_of = rows.row_of.as<std::int32_t>(),
                  .expert = experts.as<std::int32_t>(),
                  .experts = static_cast<int>(width),
                  .chunks = static_cast<int>(chunks),
                  .count = static_cast<std::int32_t>(count),
                  .chunk = static_cast<std::int32_t>(parts(count, chunks))};
  const std::size_t shared = static_cast<std::size_t>(width) * sizeof(std::int32_t);
  launch(count_chunks, extent(chunks), 32, shared, stream, sort);
  launch(add_chunks, 1, kAddThreads, 0, stream, sort);
  launch(number_rows, extent(chunks), 32, shared, stream, sort);
  launch(place_pairs, flat_blocks<1>(count), kFlatThreads, 0, stream, sort.pairs, sort.row_of,
         count);
}

void gather_tokens(Stream& stream, Tensor y, Tensor x, const ExpertRows& rows) {
  const Rows of = rows_of(rows, rows.pairs.count(), x.width());
  with_float(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>) {
      over_rows<n>(stream, gather_kernel<n, T>, of, y.as<T>(), x.as<T>(), of);
    };
    with_packs<T>(of.width, run, y, x);
  });
}

void combine_rows(Stream& stream, Tensor y, Tensor x, Tensor weights, const ExpertRows& rows) {
  const Rows of = rows_of(rows, rows.row_of.rows(), y.width());
  with_float(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>) {
      over_rows<n>(stream, combine_kernel<n, T>, of, y.as<T>(), x.as<T>(), at<Sum<T>>(weights), of);
    };
    with_packs<T>(of.width, run, y, x);
  });
}

void weigh_rows_backward(Stream& stream, Tensor dweights, Tensor act, Tensor dact, Tensor weights,
                         const ExpertRows& rows) {
  const Rows of = rows_of(rows, act.rows(), act.width());
  with_float(act.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto run = [&]<int n>(Count<n>) {
      over_rows<n>(stream, weigh_kernel<n, T>, of, dweights.as<Sum<T>>(), act.as<T>(), dact.as<T>(),
                   weights.as<Sum<T>>(), of);
    };
    with_packs<T>(of.width, run, act, dact);
  });
}

}  // namespace trireme::ops::cuda
