#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "model/ops/cuda/values.cuh"

// Common parts of the kernels of ops/grouped_gemm.h: which tile of which group is a block's.
namespace trireme::ops::cuda {

enum class GroupedOp : std::uint8_t {
  kProduct,            // c [rows, n] = a [rows, k] b_g [k, n]
  kTransposedProduct,  // c [rows, n] = a [rows, k] b_g [n, k]^T
  kWeight              // c_g [m, n] = a_g [rows, m]^T b_g [rows, n]
};

// A kernel's parameters.
template <class T, class C>
struct Grouped {
  const T* a = nullptr;
  const T* b = nullptr;
  C* c = nullptr;
  const std::int32_t* starts = nullptr;
  std::int64_t rows = 0;                // of a, of all groups and beyond
  int groups = 0, m = 0, n = 0, k = 0;  // m of a weight product only, k of the others
  int matrices = 0;                     // in b, not of a weight product
  bool adds = false;
  bool vectors = false;    // rows of a and b are aligned to, and multiples of, 16 bytes
  bool c_vectors = false;  // those of c
};

// A tile of c and its operands from the tile's first row and column on. m and n are what is left of
// the group's, beyond the tile too.
template <class T, class C>
struct GroupedTile {
  const T* a = nullptr;
  const T* b = nullptr;
  C* c = nullptr;
  int m = 0, n = 0, depth = 0;
  // Where the tile is: its matrix in b or c, row and column in it or in a, the depth's first row.
  int matrix = 0, row = 0, column = 0, first_depth = 0;
};

// Tiles of a group are numbered from this on: a group has no more tiles than lie before the next
// one's first, and numbers without a tile are fewer than two per group.
template <int kTile>
__device__ __forceinline__ int first_tile_of(const std::int32_t* starts, int group) {
  return starts[group] / kTile + group;
}
template <int kTile>
std::int64_t most_tiles(std::int64_t rows, std::int64_t groups) {
  return rows / kTile + groups;
}

// The last group whose first tile is not after `tile`. All lanes of a warp call it: each step looks
// at 32 places.
template <int kTile>
__device__ __forceinline__ int group_of(const std::int32_t* starts, int groups, int tile) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  int low = 0, high = groups;
  while (high - low > 1) {
    const int step = (high - low + 31) / 32, at = low + step * lane;
    const bool before = at < high && first_tile_of<kTile>(starts, at) <= tile;
    const int seen = __popc(__ballot_sync(0xffffffffu, static_cast<int>(before)));
    low += step * (max(seen, 1) - 1);
    high = min(high, low + step);
  }
  return low;
}

// The block's tile; without rows if its number has none.
template <GroupedOp kOp, int kTileM, int kTileN, class T, class C>
__device__ __forceinline__ GroupedTile<T, C> tile_of_block(const Grouped<T, C>& all) {
  const int across = (all.n + kTileN - 1) / kTileN;
  const int number = static_cast<int>(blockIdx.x) / across;
  const std::int64_t n = static_cast<int>(blockIdx.x) % across * kTileN;
  GroupedTile<T, C> tile;
  tile.column = static_cast<int>(n);
  tile.n = all.n - tile.column;
  if constexpr (kOp == GroupedOp::kWeight) {
    const int down = (all.m + kTileM - 1) / kTileM, group = number / down;
    const std::int64_t m = number % down * kTileM, start = all.starts[group];
    tile.matrix = group;
    tile.row = static_cast<int>(m);
    tile.first_depth = static_cast<int>(start);
    tile.m = all.m - tile.row;
    tile.depth = all.starts[group + 1] - tile.first_depth;
    tile.a = all.a + start * all.m + m;
    tile.b = all.b + start * all.n + n;
    tile.c = all.c + (std::int64_t{group} * all.m + m) * all.n + n;
  } else {
    const int group = group_of<kTileM>(all.starts, all.groups, number);
    const int before = number - first_tile_of<kTileM>(all.starts, group);
    const std::int64_t row = all.starts[group] + std::int64_t{before} * kTileM;
    if (before < 0 || row >= all.starts[group + 1]) return tile;
    tile.matrix = group % all.matrices;
    tile.row = static_cast<int>(row);
    const T* const matrix = all.b + std::int64_t{tile.matrix} * all.k * all.n;
    tile.m = all.starts[group + 1] - tile.row;
    tile.depth = all.k;
    tile.a = all.a + row * all.k;
    tile.b = matrix + (kOp == GroupedOp::kTransposedProduct ? n * all.k : n);
    tile.c = all.c + row * all.n + n;
  }
  return tile;
}

// On tensor cores. C is T, or float for weight products.
void launch_grouped_mma(Stream&, GroupedOp op, const Grouped<Bf16, Bf16>&);
void launch_grouped_mma(Stream&, GroupedOp op, const Grouped<F16, F16>&);
void launch_grouped_mma(Stream&, const Grouped<Bf16, float>& weight);
void launch_grouped_mma(Stream&, const Grouped<F16, float>& weight);

// The same for compute capability 9.0 and operands whose rows are multiples of 64. Return whether
// they were launched.
bool launch_grouped_wgmma(Stream&, GroupedOp op, const Grouped<Bf16, Bf16>&);
bool launch_grouped_wgmma(Stream&, GroupedOp op, const Grouped<F16, F16>&);
bool launch_grouped_wgmma(Stream&, const Grouped<Bf16, float>& weight);
bool launch_grouped_wgmma(Stream&, const Grouped<F16, float>& weight);

}  // namespace trireme::ops::cuda
