#pragma once
#include "model/ops/cuda/attention_heads.cuh"
#include "model/ops/cuda/mma.cuh"
#include "model/ops/cuda/values.cuh"
#include "model/tensor/dtype.h"

// Tiles of heads of T, bfloat16 or float16, in shared memory, and their products on tensor cores. A
// tile's row has W elements, a multiple of 64, in 16-byte chunks that are permuted (swizzled)
// within each row so that eight rows of one column are in eight different banks. A warp owns 16
// rows of the block's own tile.
namespace trireme::ops::cuda {

inline constexpr int kOwnRows = 64;   // per block
inline constexpr int kWarpRows = 16;  // per warp
inline constexpr int kLoadUnroll = 2;
inline constexpr float kLog2E = 1.4426950408889634f;

template <int W>
__device__ __forceinline__ int place(int row, int chunk) {
  return row * W + ((chunk ^ (row & 7)) << 3);
}

// Loads the rows from `first` on, zero-padded beyond the head's rows and width; asynchronously if
// rows are aligned.
template <int kRows, int W, int kThreads, class T>
__device__ __forceinline__ void load_tile(T* tile, const HeadRows<const T>& from, int first) {
  constexpr int kAtOnce = kThreads / (W / 8);  // rows
  const int chunk = static_cast<int>(threadIdx.x) % (W / 8), left = from.width - 8 * chunk;
  const T* const column = from.first + 8 * chunk;
#pragma unroll kLoadUnroll
  for (int row = static_cast<int>(threadIdx.x) / (W / 8); row < kRows; row += kAtOnce) {
    const bool inside = first + row < from.rows && left > 0;
    const T* const source = inside ? column + (first + row) * from.stride : from.first;
    T* const to = tile + place<W>(row, chunk);
    if (from.vectors) {
      start_copy(to, source, inside);
    } else {
#pragma unroll 1
      for (int e = 0; e < 8; ++e) to[e] = inside && e < left ? source[e] : T{};
    }
  }
}

// Stores a warp's rows of a tile to the head's rows from `first` on.
template <int W, class T>
__device__ __forceinline__ void store_rows(const HeadRows<T>& to, const T* tile, int from_row,
                                           int first) {
  for (int i = static_cast<int>(threadIdx.x) % 32; i < kWarpRows * (W / 8); i += 32) {
    const int row = i / (W / 8), chunk = i % (W / 8), left = to.width - 8 * chunk;
    if (first + row >= to.rows || left <= 0) continue;
    T* const target = to.first + (first + row) * to.stride + 8 * chunk;
    const T* const source = tile + place<W>(from_row + row, chunk);
    if (to.vectors) {
      *reinterpret_cast<uint4*>(target) = *reinterpret_cast<const uint4*>(source);
    } else {
      for (int e = 0; e < 8 && e < left; ++e) target[e] = source[e];
    }
  }
}

// Which of a thread's scores [16 rows, kCount columns] dropout keeps: bit 4 n + e is that of
// element e of accumulator n. Rows are queries from `row` on, and columns keys from `column` on, a
// multiple of 32; or the other way round.
template <int kCount, bool kOfKeys, class T>
__device__ __forceinline__ std::uint32_t kept_bits(const HeadsWithDropout<T>& in, int batch,
                                                   int head, int row, int column) {
  static_assert(kCount <= 64);
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
  std::uint32_t bits = 0;
  if constexpr (kOfKeys) {
#pragma unroll 1
    for (int at = 0; at < kCount / 4; ++at) {
      const int n = at / 2, e = at % 2, key = row + g;
      const PhiloxWords drawn = in.draw(batch, head, column + 8 * n + 2 * t + e, key, g / 2);
      const auto word = static_cast<unsigned>(key / 8 % 4);
      bits |= static_cast<std::uint32_t>(in.keeps(drawn[word], g)) << (4 * n + e);
      bits |= static_cast<std::uint32_t>(in.keeps(drawn[word + 1], g)) << (4 * n + e + 2);
    }
  } else {
#pragma unroll 1
    for (int at = 0; at < kCount / 16; ++at) {
      const int r = at % 2, first = at / 2 * 32;
      const PhiloxWords drawn = in.draw(batch, head, row + g + 8 * r, column + first, t);
#pragma unroll
      for (unsigned n = 0; n < 4; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e)
          bits |= static_cast<std::uint32_t>(in.keeps(drawn[n], e))
                  << (first / 2 + 4 * n + 2 * r + e);
      }
    }
  }
  return bits;
}

__device__ __forceinline__ float dropped(float value, float factor, std::uint32_t kept, int n,
                                         int e) {
  return (kept >> (4 * n + e) & 1) != 0 ? value * factor : 0.0f;
}

// Loads the fragment of 16 rows and the k-th 16 columns.
template <int W, class T>
__device__ __forceinline__ void load_left(std::uint32_t (&a)[4], const T* tile, int row, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  load_matrices(a, tile + place<W>(row + lane % 16, 2 * k + lane / 16));
}

// c [16, kRows] += a [16, the k-th 16 columns] times the same columns of `right` [kRows, W],
// transposed.
template <int kRows, int W, class T>
__device__ __forceinline__ void multiply_rows(float (&c)[kRows / 8][4], const std::uint32_t (&a)[4],
                                              const T* right, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kRows / 16; ++n) {
    std::uint32_t b[4];
    load_matrices(b, right + place<W>(16 * n + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
    multiply<T>(c[2 * n], a, b[0], b[1]);
    multiply<T>(c[2 * n + 1], a, b[2], b[3]);
  }
}

// c [16, kColumns] += weights [16, kRows], in the layout of multiply_rows, times the columns of
// `right` [kRows, W] from `column` on.
template <int kRows, int W, int kColumns, class T>
__device__ __forceinline__ void mix_rows(float (&c)[kColumns / 8][4],
                                         const float (&weights)[kRows / 8][4], const T* right,
                                         int column) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int k = 0; k < kRows / 16; ++k) {
    const auto& low = weights[2 * k];
    const auto& high = weights[2 * k + 1];
    const std::uint32_t a[4] = {pack<T>(low[0], low[1]), pack<T>(low[2], low[3]),
                                pack<T>(high[0], high[1]), pack<T>(high[2], high[3])};
#pragma unroll
    for (int n = 0; n < kColumns / 16; ++n) {
      std::uint32_t b[4];
      load_matrices_transposed(
          b, right + place<W>(16 * k + lane % 16, column / 8 + 2 * n + lane / 16));
      multiply<T>(c[2 * n], a, b[0], b[1]);
      multiply<T>(c[2 * n + 1], a, b[2], b[3]);
    }
  }
}

// Stores the accumulators [16, kColumns], times one factor for rows 0-7 and one for 8-15, as rows
// of a tile.
template <int W, int kColumns, class T>
__device__ __forceinline__ void put_rows(T* tile, int row, int column,
                                         const float (&c)[kColumns / 8][4], float low, float high) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
    T* const above = tile + place<W>(row + g, column / 8 + n) + 2 * t;
    T* const below = tile + place<W>(row + g + 8, column / 8 + n) + 2 * t;
    *reinterpret_cast<std::uint32_t*>(above) = pack<T>(c[n][0] * low, c[n][1] * low);
    *reinterpret_cast<std::uint32_t*>(below) = pack<T>(c[n][2] * high, c[n][3] * high);
  }
}

}  // namespace trireme::ops::cuda
