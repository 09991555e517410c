#include "model/ops/embedding.h"

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/values.cuh"
#include "model/ops/tokens_by_id.h"

// The backward has no atomics: each warp sorts the tokens of a few rows by a scan over all ids, and
// a block then sums each row's tokens in order.
namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 128;
constexpr int kScanThreads = 1024;
constexpr int kWarpRows = 256;  // table rows that one warp sorts
constexpr int kAhead = 8;       // ids that a thread prefetches
constexpr int kAtOnce = 4;      // elements per thread

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

template <class T>
__global__ __launch_bounds__(kThreads) void look_up(T* y, const T* table, const Ids ids,
                                                    std::int64_t width, bool adds) {
  const std::int64_t token = blockIdx.x, row = ids.row(token);
  T* const to = y + token * width;
  const T* const from = table + (row < 0 ? 0 : row) * width;
  if (adds && row < 0) return;
  const bool fits = Vector<T>::fits(to) && Vector<T>::fits(from);
  for (std::int64_t i = std::int64_t{threadIdx.x} * Vector<T>::kLength; i < width;
       i += kThreads * Vector<T>::kLength) {
    auto value = load_vector(from + i, row < 0 ? 0 : width - i, fits);
    if (adds) {
      const auto before = load_vector(to + i, width - i, fits);
#pragma unroll
      for (int e = 0; e < Vector<T>::kLength; ++e)
        value.x[e] = rounded<T>(widened(before.x[e]) + widened(value.x[e]));
    }
    store_vector(to + i, value, width - i, fits);
  }
}

// A block of one warp scans all tokens in order for those of its own rows. It counts them in
// starts[row + 1] or, once starts are prefix sums, places them.
template <bool kPlaces>
__global__ __launch_bounds__(32) void sort_tokens(std::int32_t* starts, std::int32_t* order,
                                                  const Ids ids) {
  __shared__ std::int32_t next[kWarpRows];
  const std::int64_t first_row = std::int64_t{blockIdx.x} * kWarpRows;
  const int lane = static_cast<int>(threadIdx.x);
  const int rows = static_cast<int>(min(std::int64_t{kWarpRows}, ids.rows - first_row));
  for (int i = lane; i < rows; i += 32) next[i] = kPlaces ? starts[first_row + i] : 0;
  __syncwarp();
  for (std::int64_t first = lane; first - lane < ids.tokens; first += 32 * kAhead) {
    int rows_of[kAhead];
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const std::int64_t token = first + 32 * k;
      const std::int64_t apart = token < ids.tokens ? ids.row(token) - first_row : -1;
      rows_of[k] = apart >= 0 && apart < rows ? static_cast<int>(apart) : -1;
    }
#pragma unroll
    for (int k = 0; k < kAhead; ++k) {
      const int row = rows_of[k];
      int before = 0, same = 0;  // tokens of the same row among these 32
      for (unsigned left = __ballot_sync(0xffffffffu, row >= 0); left != 0; left &= left - 1) {
        const int source = __ffs(static_cast<int>(left)) - 1;
        const bool equal = __shfl_sync(0xffffffffu, row, source) == row;
        same += equal ? 1 : 0;
        before += equal && source < lane ? 1 : 0;
      }
      const int at = row >= 0 ? next[row] + before : 0;
      __syncwarp();
      if (row >= 0 && before == same - 1) next[row] = at + 1;
      if (kPlaces && row >= 0) order[at] = static_cast<std::int32_t>(first + 32 * k);
      __syncwarp();
    }
  }
  if constexpr (!kPlaces) {
    for (int i = lane; i < rows; i += 32) starts[first_row + i + 1] = next[i];
  }
}

// starts[r] = prefix sum of counts up to r; one block.
__global__ __launch_bounds__(kScanThreads) void sum_counts(std::int32_t* starts,
                                                           std::int64_t rows) {
  __shared__ std::int32_t sums[kScanThreads / 32];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  std::int32_t before = 0;
  for (std::int64_t first = 0; first <= rows; first += kScanThreads) {
    const std::int64_t row = first + threadIdx.x;
    std::int32_t sum = row > 0 && row <= rows ? starts[row] : 0;
    for (int apart = 1; apart < 32; apart *= 2) {
      const std::int32_t below = __shfl_up_sync(0xffffffffu, sum, static_cast<unsigned>(apart));
      if (lane >= apart) sum += below;
    }
    if (lane == 31) sums[warp] = sum;
    __syncthreads();
    std::int32_t all = 0;
    for (int i = 0; i < kScanThreads / 32; ++i) {
      if (i == warp) sum += before + all;
      all += sums[i];
    }
    if (row <= rows) starts[row] = sum;
    before += all;
    __syncthreads();
  }
}

template <class T>
__global__ __launch_bounds__(kThreads) void add_tokens(Accumulator<T>* dtable, const T* dy,
                                                       const std::int32_t* starts,
                                                       const std::int32_t* order,
                                                       std::int64_t width, bool adds) {
  using A = Accumulator<T>;
  const std::int64_t row = blockIdx.x;
  const std::int32_t first = starts[row], end = starts[row + 1];
  if (adds && first == end) return;
  A* const to = dtable + row * width;
  const bool to_fits = Vector<A, kAtOnce>::fits(to);
  for (std::int64_t i = std::int64_t{threadIdx.x} * kAtOnce; i < width; i += kThreads * kAtOnce) {
    auto sum = load_vector<A, kAtOnce>(to + i, adds ? width - i : 0, to_fits);
#pragma unroll 4
    for (std::int32_t next = first; next < end; ++next) {
      const T* const from = dy + order[next] * width;
      const auto value =
          load_vector<T, kAtOnce>(from + i, width - i, Vector<T, kAtOnce>::fits(from));
#pragma unroll
      for (int e = 0; e < kAtOnce; ++e) sum.x[e] += widened(value.x[e]);
    }
    store_vector(to + i, sum, width - i, to_fits);
  }
}

Ids ids_of(Tensor ids, std::int64_t first, std::int64_t rows) {
  return {.ids = ids.as<std::int32_t>(), .tokens = ids.count(), .first = first, .rows = rows};
}

}  // namespace

void embedding(Stream& stream, Tensor y, Tensor table, Tensor ids, std::int64_t first,
               Accumulate accumulate) {
  if (ids.count() == 0) return;
  with_float(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(look_up<T>, extent(ids.count()), kThreads, 0, stream, y.as<T>(), table.as<T>(),
           ids_of(ids, first, table.rows()), table.width(), accumulate == Accumulate::kAdd);
  });
}

void embedding_backward(Stream& stream, const TokensById& room, Tensor dtable, Tensor dy,
                        Tensor ids, std::int64_t first, Accumulate accumulate) {
  const std::int64_t rows = dtable.rows();
  if (rows == 0) return;
  const auto warps = extent(parts(rows, kWarpRows));
  auto* const starts = room.starts.as<std::int32_t>();
  auto* const order = room.order.as<std::int32_t>();
  const Ids held = ids_of(ids, first, rows);
  launch(sort_tokens<false>, warps, 32, 0, stream, starts, order, held);
  launch(sum_counts, 1, kScanThreads, 0, stream, starts, rows);
  launch(sort_tokens<true>, warps, 32, 0, stream, starts, order, held);
  with_float(dy.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(add_tokens<T>, extent(rows), kThreads, 0, stream, dtable.as<Accumulator<T>>(),
           dy.as<T>(), starts, order, dtable.width(), accumulate == Accumulate::kAdd);
  });
}

}  // namespace trireme::ops::cuda
