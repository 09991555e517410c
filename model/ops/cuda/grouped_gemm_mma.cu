#include "model/device/cuda/launch.cuh"
#include "model/device/cuda/shared.cuh"
#include "model/ops/cuda/attention_mma.cuh"
#include "model/ops/cuda/grouped_gemm.cuh"

namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

// Of c per block, and of it per warp.
constexpr int kThreads = 256, kTile = 128, kDepth = 64;
constexpr int kWarpM = 32, kWarpN = 64;
constexpr int kTileSize = kTile * kDepth;  // of one operand
constexpr int kStages = 2;
// Operands, then all of c.
constexpr std::size_t kSharedBytes = kStages * 2 * kTileSize * sizeof(Bf16);
static_assert(kTile * kTile * sizeof(float) <= kSharedBytes);

// Loads a tile of a row-major matrix of which `rows` and `width` are left, zero-padded;
// asynchronously if its rows are `vectors`.
template <int kRows, int W, class T>
__device__ __forceinline__ void load_operand(T* tile, const T* from, std::int64_t stride, int rows,
                                             int width, bool vectors) {
  constexpr int kAtOnce = kThreads / (W / 8);  // rows, a multiple of those that are permuted
  const int row = static_cast<int>(threadIdx.x) / (W / 8);
  const int chunk = static_cast<int>(threadIdx.x) % (W / 8), left = width - 8 * chunk;
  const T* source = from + row * stride + 8 * chunk;
  T* const to = tile + place<W>(row, chunk);
#pragma unroll
  for (int i = 0; i < kRows / kAtOnce; ++i, source += kAtOnce * stride) {
    const bool inside = row + i * kAtOnce < rows && left > 0;
    T* const here = to + i * kAtOnce * W;
    if (vectors) {
      start_copy(here, source, inside);
    } else {
#pragma unroll 1
      for (int e = 0; e < 8; ++e) here[e] = inside && e < left ? source[e] : T{};
    }
  }
}

// Operands as they are stored: with the depth along rows or along columns.
template <bool kDepthFirst, class T>
__device__ __forceinline__ void load_step(T* tile, const T* from, std::int64_t stride, int extent,
                                          int depth, int step, bool vectors) {
  const int first = step * kDepth, left = depth - first;
  if constexpr (kDepthFirst) {
    load_operand<kDepth, kTile>(tile, from + first * stride, stride, left, extent, vectors);
  } else {
    load_operand<kTile, kDepth>(tile, from + first, stride, extent, left, vectors);
  }
}

// The fragments of 16 rows of a^T or a, or of 16 columns of b, for the k-th 16 of the depth.
template <bool kDepthFirst, class T>
__device__ __forceinline__ void load_a(std::uint32_t (&a)[4], const T* tile, int row, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (kDepthFirst) {
    load_matrices_transposed(
        a, tile + place<kTile>(16 * k + lane / 16 * 8 + lane % 8, row / 8 + lane / 8 % 2));
  } else {
    load_matrices(a, tile + place<kDepth>(row + lane % 16, 2 * k + lane / 16));
  }
}
template <bool kDepthFirst, class T>
__device__ __forceinline__ void load_b(std::uint32_t (&b)[4], const T* tile, int column, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if constexpr (kDepthFirst) {
    load_matrices_transposed(b, tile + place<kTile>(16 * k + lane % 16, column / 8 + lane / 16));
  } else {
    load_matrices(b, tile + place<kDepth>(column + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
  }
}

using Sums = float[kWarpM / 16][kWarpN / 8][4];

// Place of an element of a warp's part of c in its part of shared memory, in permuted chunks of 16
// bytes.
template <class C>
__device__ __forceinline__ int place_of_sum(int row, int column) {
  constexpr int kLength = Vector<C>::kLength;
  return row * kWarpN + ((column / kLength) ^ ((row & 7) << (sizeof(C) / 4))) * kLength +
         column % kLength;
}

// Through shared memory, so that a warp accesses whole rows.
template <class T, class C>
__device__ __forceinline__ void store_sums(const GroupedTile<T, C>& tile, const Grouped<T, C>& all,
                                           C* room, const Sums& sums, int row, int column) {
  constexpr int kLength = Vector<C>::kLength;
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int i = 0; i < kWarpM / 16; ++i) {
#pragma unroll
    for (int n = 0; n < kWarpN / 8; ++n) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float pair[2] = {sums[i][n][2 * r], sums[i][n][2 * r + 1]};
        store(room + place_of_sum<C>(16 * i + 8 * r + g, 8 * n + 2 * t), pair);
      }
    }
  }
  __syncwarp();
#pragma unroll 2
  for (int i = kLength * lane; i < kWarpM * kWarpN; i += kLength * 32) {
    const int from = i / kWarpN, first = i % kWarpN, left = tile.n - column - first;
    if (row + from >= tile.m || left <= 0) continue;
    C* const to = tile.c + std::int64_t{row + from} * all.n + column + first;
    auto value = *reinterpret_cast<const Vector<C>*>(room + place_of_sum<C>(from, first));
    if constexpr (kIsAccumulator<C>) {
      if (all.adds) {
        const auto before = load_vector(to, left, all.c_vectors);
#pragma unroll
        for (int e = 0; e < kLength; ++e) value.x[e] += before.x[e];
      }
    }
    store_vector(to, value, left, all.c_vectors);
  }
}

// The next step's operands load while this one's are multiplied.
template <GroupedOp kOp, class T, class C>
__global__ __launch_bounds__(kThreads, 2) void grouped_mma(const Grouped<T, C> all) {
  constexpr bool kDepthFirstA = kOp == GroupedOp::kWeight;
  constexpr bool kDepthFirstB = kOp != GroupedOp::kTransposedProduct;
  T* const room = trireme::cuda::dynamic_shared<T>();
  const auto tile = tile_of_block<kOp, kTile, kTile>(all);
  if (tile.m == 0) return;
  const auto load_both = [&](int step) {
    T* const to = room + step % kStages * 2 * kTileSize;
    load_step<kDepthFirstA>(to, tile.a, kDepthFirstA ? all.m : all.k, tile.m, tile.depth, step,
                            all.vectors);
    load_step<kDepthFirstB>(to + kTileSize, tile.b, kDepthFirstB ? all.n : all.k, tile.n,
                            tile.depth, step, all.vectors);
    close_copies();
  };
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp / (kTile / kWarpN) * kWarpM, column = warp % (kTile / kWarpN) * kWarpN;
  const bool works = row < tile.m && column < tile.n;
  const int steps = (tile.depth + kDepth - 1) / kDepth;
  Sums sums = {};
  if (steps > 0) load_both(0);
  for (int step = 0; step < steps; ++step) {
    wait_copies<0>();
    __syncthreads();
    if (step + 1 < steps) load_both(step + 1);
    if (!works) continue;
    const T* const a_tile = room + step % kStages * 2 * kTileSize;
#pragma unroll 2  // all four spill
    for (int k = 0; k < kDepth / 16; ++k) {
      std::uint32_t a[kWarpM / 16][4];
#pragma unroll
      for (int i = 0; i < kWarpM / 16; ++i) load_a<kDepthFirstA>(a[i], a_tile, row + 16 * i, k);
#pragma unroll
      for (int n = 0; n < kWarpN / 16; ++n) {
        std::uint32_t b[4];
        load_b<kDepthFirstB>(b, a_tile + kTileSize, column + 16 * n, k);
#pragma unroll
        for (int i = 0; i < kWarpM / 16; ++i) {
          multiply<T>(sums[i][2 * n], a[i], b[0], b[1]);
          multiply<T>(sums[i][2 * n + 1], a[i], b[2], b[3]);
        }
      }
    }
  }
  __syncthreads();  // all operands were read
  if (!works) return;
  C* const own = reinterpret_cast<C*>(room) + warp * kWarpM * kWarpN;
  store_sums(tile, all, own, sums, row, column);
}

template <GroupedOp kOp, class T, class C>
void launch_of(Stream& stream, std::int64_t tiles_down, const Grouped<T, C>& all) {
  launch(grouped_mma<kOp, T, C>, extent(tiles_down * parts(all.n, kTile)), kThreads, kSharedBytes,
         stream, all);
}

template <class T>
void launch_product(Stream& stream, GroupedOp op, const Grouped<T, T>& all) {
  const std::int64_t tiles = most_tiles<kTile>(all.rows, all.groups);
  if (op == GroupedOp::kProduct) {
    launch_of<GroupedOp::kProduct>(stream, tiles, all);
  } else {
    launch_of<GroupedOp::kTransposedProduct>(stream, tiles, all);
  }
}

}  // namespace

void launch_grouped_mma(Stream& stream, GroupedOp op, const Grouped<Bf16, Bf16>& all) {
  launch_product(stream, op, all);
}
void launch_grouped_mma(Stream& stream, GroupedOp op, const Grouped<F16, F16>& all) {
  launch_product(stream, op, all);
}
void launch_grouped_mma(Stream& stream, const Grouped<Bf16, float>& weight) {
  launch_of<GroupedOp::kWeight>(stream, weight.groups * parts(weight.m, kTile), weight);
}
void launch_grouped_mma(Stream& stream, const Grouped<F16, float>& weight) {
  launch_of<GroupedOp::kWeight>(stream, weight.groups * parts(weight.m, kTile), weight);
}

}  // namespace trireme::ops::cuda
