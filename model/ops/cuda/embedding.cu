#include "model/ops/embedding.h"

#include <algorithm>
#include <type_traits>

#include "model/ops/cuda/tokens_by_id.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

constexpr int kThreads = 128;
constexpr std::int64_t kBlocks = 4096;  // of each kind that add tokens or clear rows, at most

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

// Element i of a word.
template <class T, class Word>
__device__ __forceinline__ T element(Word word, int i) {
  if constexpr (sizeof(T) == 8) {
    return __longlong_as_double(static_cast<long long>(word));
  } else if constexpr (sizeof(T) == 4) {
    return __uint_as_float(static_cast<std::uint32_t>(word >> 32 * i));
  } else {
    T value;
    value.bits = static_cast<std::uint16_t>(word >> 16 * i);
    return value;
  }
}

// n columns per thread in each of kGroups groups of columns of a row.
template <int n, int kGroups, class T>
struct RowSums {
  using A = Accumulator<T>;
  // Words, since elements of 16 bits would be taken apart, and so waited for, as they are loaded.
  using Word =
      std::conditional_t<n * sizeof(T) == 8, std::uint64_t,
                         std::conditional_t<n * sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
  static constexpr std::int64_t kStep = kThreads * n;
  A sums[kGroups][n] = {};

  // Adds tokens [first, end) of those that a warp's lanes hold, in order; at most kBatch. Loads
  // and sums are unconditional, so that no load waits for another.
  template <int kBatch>
  __device__ __forceinline__ void add(const T* const (&columns)[kGroups], std::int64_t width,
                                      std::int32_t tokens, int first, int end) {
    Word words[kBatch][kGroups];
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const std::int64_t token = __shfl_sync(0xffffffffu, tokens, min(first + u, end - 1));
#pragma unroll
      for (int g = 0; g < kGroups; ++g)
        words[u][g] = *reinterpret_cast<const Word*>(columns[g] + token * width);
    }
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
#pragma unroll
        for (int e = 0; e < n; ++e) {
          const A sum = sums[g][e] + widened(element<T>(words[u][g], e));
          sums[g][e] = first + u < end ? sum : sums[g][e];
        }
      }
    }
  }
};

// Adds the tokens of a row in order, kBatch at once.
template <int n, int kGroups, int kBatch, class T>
__device__ __forceinline__ void add_row(Accumulator<T>* dtable, const T* dy,
                                        const std::int32_t* order, const UsedRow& used,
                                        std::int64_t width, std::int64_t first_column, bool adds) {
  RowSums<n, kGroups, T> row;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t column = first_column + std::int64_t{threadIdx.x} * n;
  Accumulator<T>* const to = dtable + used.row * width + column;
  const T* columns[kGroups];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const bool exists = column + g * row.kStep < width;
    columns[g] = dy + (exists ? column + g * row.kStep : 0);
    if (adds && exists) load(row.sums[g], to + g * row.kStep);
  }
  if (used.count == 1) {
    row.template add<1>(columns, width, used.first, 0, 1);
  } else {
    std::int32_t next = lane < used.count ? order[used.start + lane] : 0;
    for (std::int32_t done = 0; done < used.count; done += 32) {
      const std::int32_t tokens = next, later = done + 32 + lane;
      next = later < used.count ? order[used.start + later] : 0;
      const int here = min(used.count - done, 32);
      for (int i = 0; i < here; i += kBatch)
        row.template add<kBatch>(columns, width, tokens, i, here);
    }
  }
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    if (column + g * row.kStep < width) store(to + g * row.kStep, row.sums[g]);
  }
}

// Numbers of blocks of add_tokens of each kind, in this order.
struct Blocks {
  unsigned hot = 0, cold = 0, clearing = 0;
};

// How add_tokens processes rows: n columns per thread, of bytes that are aligned.
template <class T, int n>
struct Columns {
  static constexpr int kCold = n, kColdGroups = 2, kColdBatch = 4;
  // Few columns, so that blocks are many, and many tokens.
  static constexpr int kHot = n * sizeof(T) > 4 ? (n > 1 ? n / 2 : 1) : n;
  static constexpr int kHotBatch = 16;
  static constexpr std::int64_t kColdBlock = kThreads * kCold * kColdGroups;
  static constexpr std::int64_t kHotBlock = kThreads * kHot;
};

// Adds the tokens of rows that have some, whose columns are distributed over blocks, and clears
// other rows.
template <int n, class T>
__global__ __launch_bounds__(kThreads, 8) void add_tokens(Accumulator<T>* dtable, const T* dy,
                                                          const Sorted sorted, std::int64_t rows,
                                                          std::int64_t width, const Blocks blocks,
                                                          bool adds) {
  using A = Accumulator<T>;
  using C = Columns<T, n>;
  unsigned block = blockIdx.x;
  if (block < blocks.hot) {
    const auto chunks = static_cast<unsigned>((width + C::kHotBlock - 1) / C::kHotBlock);
    const std::int32_t count = *sorted.hot;
    for (std::int64_t k = block / chunks; k < count; k += blocks.hot / chunks)
      add_row<C::kHot, 1, C::kHotBatch>(dtable, dy, sorted.order,
                                        sorted.used_rows[sorted.most_used_rows - 1 - k], width,
                                        block % chunks * C::kHotBlock, adds);
    return;
  }
  block -= blocks.hot;
  if (block < blocks.cold) {
    const auto chunks = static_cast<unsigned>((width + C::kColdBlock - 1) / C::kColdBlock);
    const std::int32_t count = *sorted.cold, step = static_cast<std::int32_t>(blocks.cold / chunks);
    auto k = static_cast<std::int32_t>(block / chunks);
    UsedRow next = k < count ? sorted.used_rows[k] : UsedRow{};
    for (; k < count; k += step) {
      const UsedRow used = next;
      if (k + step < count) next = sorted.used_rows[k + step];
      add_row<C::kCold, C::kColdGroups, C::kColdBatch>(dtable, dy, sorted.order, used, width,
                                                       block % chunks * C::kColdBlock, adds);
    }
    return;
  }
  block -= blocks.cold;
  for (std::int64_t row = block; row < rows; row += blocks.clearing) {
    if (sorted.counts[row] != 0) continue;
    for (std::int64_t i = std::int64_t{threadIdx.x} * n; i < width; i += kThreads * n)
      *reinterpret_cast<Pack<A, n>*>(dtable + row * width + i) = Pack<A, n>{};
  }
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
  const std::int64_t rows = dtable.rows(), width = dtable.width(), tokens = ids.count();
  if (rows == 0 || width == 0) return;
  const Sorted sorted = sort_tokens(stream, room, ids_of(ids, first, rows));
  const bool adds = accumulate == Accumulate::kAdd;
  with_float(dy.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const auto run = [&]<int n>(Count<n>) {
      // Blocks of a kind that process `most` rows at most, in so many chunks of columns.
      const auto for_rows = [](std::int64_t most, std::int64_t chunks) {
        return extent(std::min(most, parts(kBlocks, chunks)) * chunks);
      };
      const Blocks kinds{
          .hot = for_rows(tokens / kMostCold, parts(width, Columns<T, n>::kHotBlock)),
          .cold = for_rows(room.used_rows.rows(), parts(width, Columns<T, n>::kColdBlock)),
          .clearing = for_rows(adds ? 0 : rows, 1)};
      launch(add_tokens<n, T>, kinds.hot + kinds.cold + kinds.clearing, kThreads, 0, stream,
             dtable.as<A>(), dy.as<T>(), sorted, rows, width, kinds, adds);
    };
    constexpr int kPack = 8 / static_cast<int>(sizeof(T));
    if (width % kPack == 0 && aligned(8, dy) && aligned(kPack * sizeof(A), dtable)) {
      run(Count<kPack>{});
    } else {
      run(Count<1>{});
    }
  });
}

}  // namespace trireme::ops::cuda
