#include "model/ops/grouped_gemm.h"

#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/grouped_gemm.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

// A thread computes kEach x kEach elements of a block's tile.
constexpr int kThreads = 256, kEach = 4, kTile = 64, kDepth = 16;
constexpr int kTileThreads = kTile / kEach;         // along one side
constexpr int kLoads = kTile * kDepth / kThreads;   // elements of an operand per thread and step
constexpr int kPitch = kTile + 16 / sizeof(float);  // spreads stores over banks

template <class T>
struct __align__(16) SharedTile {
  T at[kDepth][kPitch];
};

// This thread's elements of a step of an operand [extent, depth], stored with the depth along rows
// or along columns; zero beyond its ends.
template <bool kDepthFirst, class T>
struct Share {
  T elements[kLoads];

  static __device__ __forceinline__ int along(int i) {
    const int thread = static_cast<int>(threadIdx.x) + i * kThreads;
    return kDepthFirst ? thread % kTile : thread / kDepth;
  }
  static __device__ __forceinline__ int deep(int i) {
    const int thread = static_cast<int>(threadIdx.x) + i * kThreads;
    return kDepthFirst ? thread / kTile : thread % kDepth;
  }
  __device__ __forceinline__ void read(const T* from, std::int64_t stride, int extent, int depth,
                                       int first) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int at = along(i), k = first + deep(i);
      const std::int64_t place = kDepthFirst ? k * stride + at : at * stride + k;
      elements[i] = at < extent && k < depth ? from[place] : T(0);
    }
  }
  __device__ __forceinline__ void write(SharedTile<T>& tile) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) tile.at[deep(i)][along(i)] = elements[i];
  }
};

// The next step's operands load while this one's are multiplied.
template <GroupedOp kOp, class T>
__global__ __launch_bounds__(kThreads, 2) void grouped_fma(const Grouped<T, T> all) {
  constexpr bool kDepthFirstA = kOp == GroupedOp::kWeight;
  constexpr bool kDepthFirstB = kOp != GroupedOp::kTransposedProduct;
  __shared__ SharedTile<T> a_tile, b_tile;
  const auto tile = tile_of_block<kOp, kTile, kTile>(all);
  if (tile.m == 0) return;
  Share<kDepthFirstA, T> a;
  Share<kDepthFirstB, T> b;
  const auto read = [&](int first) {
    a.read(tile.a, kDepthFirstA ? all.m : all.k, tile.m, tile.depth, first);
    b.read(tile.b, kDepthFirstB ? all.n : all.k, tile.n, tile.depth, first);
  };
  const int row = static_cast<int>(threadIdx.x) / kTileThreads * kEach;
  const int column = static_cast<int>(threadIdx.x) % kTileThreads * kEach;
  T sums[kEach][kEach] = {};
  read(0);
  for (int first = 0; first < tile.depth; first += kDepth) {
    __syncthreads();
    a.write(a_tile);
    b.write(b_tile);
    __syncthreads();
    read(first + kDepth);
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      T left[kEach], right[kEach];
      load(left, &a_tile.at[k][row]);
      load(right, &b_tile.at[k][column]);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
#pragma unroll
        for (int j = 0; j < kEach; ++j) sums[i][j] += left[i] * right[j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    T* const to = tile.c + std::int64_t{row + i} * all.n + column;
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (row + i < tile.m && column + j < tile.n)
        to[j] = all.adds ? to[j] + sums[i][j] : sums[i][j];
    }
  }
}

template <GroupedOp kOp, class T>
void launch_fma(Stream& stream, std::int64_t tiles_down, const Grouped<T, T>& all) {
  launch(grouped_fma<kOp, T>, extent(tiles_down * parts(all.n, kTile)), kThreads, 0, stream, all);
}

// Kernels count rows and columns in 32 bits.
int counted(std::int64_t count) {
  return static_cast<int>(extent(count));
}

}  // namespace

void grouped_gemm(Stream& stream, Tensor c, Tensor a, Tensor b, Tensor starts, bool transpose_b) {
  with_float(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Grouped<T, T> all{.a = a.as<T>(),
                            .b = b.as<T>(),
                            .c = c.as<T>(),
                            .starts = starts.as<std::int32_t>(),
                            .rows = a.rows(),
                            .groups = counted(starts.count() - 1),
                            .n = counted(c.width()),
                            .k = counted(a.width()),
                            .matrices = counted(b.count() / (a.width() * c.width())),
                            .vectors = in_vectors(a, a.width()) && in_vectors(b, b.width()),
                            .c_vectors = in_vectors(c, c.width())};
    const auto op = transpose_b ? GroupedOp::kTransposedProduct : GroupedOp::kProduct;
    if constexpr (sizeof(T) == 2) {
      if (!launch_grouped_wgmma(stream, op, all)) launch_grouped_mma(stream, op, all);
    } else {
      const std::int64_t tiles = most_tiles<kTile>(all.rows, all.groups);
      if (transpose_b) {
        launch_fma<GroupedOp::kTransposedProduct>(stream, tiles, all);
      } else {
        launch_fma<GroupedOp::kProduct>(stream, tiles, all);
      }
    }
  });
}

void grouped_gemm_weight(Stream& stream, Tensor c, Tensor a, Tensor b, Tensor starts,
                         Accumulate accumulate) {
  const std::int64_t groups = starts.count() - 1, matrices = c.count() / (a.width() * b.width());
  for (std::int64_t first = 0; groups > matrices && first < groups; first += matrices) {
    cuda::grouped_gemm_weight(stream, c, a, b, starts.slice(first, matrices + 1),
                              first > 0 ? Accumulate::kAdd : accumulate);
  }
  if (groups > matrices) return;
  with_float(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    using A = Accumulator<T>;
    const Grouped<T, A> all{.a = at<T>(a),
                            .b = at<T>(b),
                            .c = c.as<A>(),
                            .starts = starts.as<std::int32_t>(),
                            .rows = a.rows(),
                            .groups = counted(starts.count() - 1),
                            .m = counted(a.width()),
                            .n = counted(b.width()),
                            .adds = accumulate == Accumulate::kAdd,
                            .vectors = in_vectors(a, a.width()) && in_vectors(b, b.width()),
                            .c_vectors = in_vectors(c, c.width())};
    if constexpr (sizeof(T) == 2) {
      if (!launch_grouped_wgmma(stream, all)) launch_grouped_mma(stream, all);
    } else {
      launch_fma<GroupedOp::kWeight>(stream, all.groups * parts(all.m, kTile), all);
    }
  });
}

}  // namespace trireme::ops::cuda
