#include "model/device/cuda/launch.cuh"
#include "model/device/cuda/shared.cuh"
#include "model/ops/cuda/grouped_gemm.cuh"
#include "model/ops/cuda/tensor_map.cuh"
#include "model/ops/cuda/wgmma.cuh"

// The products of grouped_gemm_mma.cu for compute capability 9.0. In a block two warpgroups
// multiply and one more warp loads; two blocks share a multiprocessor, so that one stores its tile
// while the other multiplies.
namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

// Of c per block, 64 rows of it per warpgroup.
constexpr int kTile = 128, kDepth = 64, kStages = 3;
constexpr int kWarps = 8;  // that multiply
constexpr int kThreads = 32 * (kWarps + 1);
constexpr int kSlab = 64 * kSwizzledRow;  // half an operand of a step

template <class T>
struct GroupedShared {
  T a[kStages][2 * kSlab];
  T b[kStages][2 * kSlab];
  // Of the loads that fill a stage, and of the warps that have read it.
  PhaseBarrier full[kStages], empty[kStages];
};
// All of c takes the operands' place; the pitch of its rows spreads stores over banks.
constexpr int kPitch = kTile + 8;
static_assert(kTile * kPitch * sizeof(float) <= offsetof(GroupedShared<Bf16>, full));

// Whether the depth of an operand goes from row to row of it.
template <GroupedOp kOp>
constexpr bool kAcrossA = kOp == GroupedOp::kWeight;
template <GroupedOp kOp>
constexpr bool kAcrossB = kOp != GroupedOp::kTransposedProduct;

struct GroupedMaps {
  TensorMap a, b;
};

// Loads kTile rows or columns from `first` on: as one box, or as one for each 64.
template <bool kAcross, class T>
__device__ __forceinline__ void load_operand(T* to, const TensorMap& map, PhaseBarrier* full,
                                             int first, int depth, int matrix) {
  if constexpr (kAcross) {
    load_box(to, map, full, first / kSwizzledRow, depth, matrix);
    load_box(to + kSlab, map, full, first / kSwizzledRow + 1, depth, matrix);
  } else {
    load_box(to, map, full, depth / kSwizzledRow, first, matrix);
  }
}

// Of one thread.
template <GroupedOp kOp, class T, class C>
__device__ __forceinline__ void load_steps(GroupedShared<T>& shared, const GroupedTile<T, C>& tile,
                                           const GroupedMaps& maps, int steps) {
  const int matrix = kOp == GroupedOp::kWeight ? 0 : tile.matrix;
  for (int step = 0; step < steps; ++step) {
    const int stage = step % kStages, depth = tile.first_depth + step * kDepth;
    wait_phase(shared.empty + stage, step / kStages % 2 ^ 1);
    PhaseBarrier* const full = shared.full + stage;
    arrive_expecting(full, static_cast<int>(sizeof shared.a[0] + sizeof shared.b[0]));
    load_operand<kAcrossA<kOp>>(shared.a[stage], maps.a, full, tile.row, depth, 0);
    load_operand<kAcrossB<kOp>>(shared.b[stage], maps.b, full, tile.column, depth, matrix);
  }
}

// Zeros the rows of both operands from `row` on, which are those of the next group: each warpgroup
// half of them.
template <class T>
__device__ __forceinline__ void clear_rows(T* a, T* b, int row) {
  constexpr int kLength = Vector<T>::kLength;
  const int half = static_cast<int>(threadIdx.x) / kWarpgroup * kSlab;
  for (int i = row * kSwizzledRow + static_cast<int>(threadIdx.x) % kWarpgroup * kLength; i < kSlab;
       i += kWarpgroup * kLength) {
    *reinterpret_cast<Vector<T>*>(a + half + i) = {};
    *reinterpret_cast<Vector<T>*>(b + half + i) = {};
  }
  publish_writes();
  sync_named(1, 32 * kWarps);
}

// sums [64, kTile] of a warpgroup += its rows of a times b, of one step.
template <GroupedOp kOp, class T>
__device__ __forceinline__ void start_step(float (&sums)[kTile / 2], const T* a, const T* b) {
  constexpr bool kLeft = kAcrossA<kOp>, kRight = kAcrossB<kOp>;
  constexpr int kSlabBytes = kSlab * static_cast<int>(sizeof(T));
  const std::uint64_t left = kLeft ? across_rows(a, kSlabBytes) : along_rows(a);
  const std::uint64_t right = kRight ? across_rows(b, kSlabBytes) : along_rows(b);
#pragma unroll
  for (int i = 0; i < kDepth / 16; ++i) {
    start_product<T, kTile, kLeft, kRight>(sums, left + (kLeft ? row_step(i) : k_step(i)),
                                           right + (kRight ? row_step(i) : k_step(i)), true);
  }
}

template <GroupedOp kOp, class T, class C>
__device__ __forceinline__ void multiply_steps(float (&sums)[kTile / 2], GroupedShared<T>& shared,
                                               const GroupedTile<T, C>& tile, int steps) {
  const int group = static_cast<int>(threadIdx.x) / kWarpgroup;
  const bool has_rows = group * 64 < tile.m, speaks = threadIdx.x % 32 == 0;
  hold(sums);
  for (int step = 0; step < steps; ++step) {
    const int stage = step % kStages;
    wait_phase(shared.full + stage, step / kStages % 2);
    if constexpr (kOp == GroupedOp::kWeight) {
      const int left = tile.depth - step * kDepth;
      if (left < kDepth) clear_rows(shared.a[stage], shared.b[stage], left);
    }
    if (has_rows) {
      fence_products();
      start_step<kOp>(sums, shared.a[stage] + group * kSlab, shared.b[stage]);
      commit_products();
    }
    wait_products<1>();  // the step before was read
    if (speaks && step > 0) arrive(shared.empty + (step - 1) % kStages);
  }
  wait_products<0>();
  hold(sums);
}

// Writes or adds a warp's 16 rows of the tile, through its room of [16, kPitch] in shared memory.
template <class T, class C>
__device__ __forceinline__ void store_sums(const GroupedTile<T, C>& tile, const Grouped<T, C>& all,
                                           C* room, const float (&sums)[kTile / 2], int first) {
  const int lane = static_cast<int>(threadIdx.x) % 32, g = lane / 4, t = lane % 4;
#pragma unroll
  for (int n = 0; n < kTile / 8; ++n) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float pair[2] = {sums[4 * n + 2 * r], sums[4 * n + 2 * r + 1]};
      store(room + (8 * r + g) * kPitch + 8 * n + 2 * t, pair);
    }
  }
  publish_writes();
  __syncwarp();
  if (lane >= 16 || first + lane >= tile.m) return;
  C* const to = tile.c + std::int64_t{first + lane} * all.n;
  const C* const row = room + lane * kPitch;
  const int bytes = min(kTile, tile.n) * static_cast<int>(sizeof(C));
  if constexpr (kIsAccumulator<C>) {
    if (all.adds) {
      add_row(to, row, bytes);
    } else {
      store_row(to, row, bytes);
    }
  } else {
    store_row(to, row, bytes);
  }
  wait_rows();
}

template <GroupedOp kOp, class T, class C>
__global__ __launch_bounds__(kThreads,
                             2) void grouped_wgmma(const __grid_constant__ GroupedMaps maps,
                                                   const Grouped<T, C> all) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  const auto tile = tile_of_block<kOp, kTile, kTile>(all);
  if (tile.m == 0 || (all.adds && tile.depth == 0)) return;
  auto* const start = trireme::cuda::dynamic_shared<unsigned char>();
  const auto past = static_cast<int>(shared_address(start) % kSwizzleBytes);
  auto& shared =
      *reinterpret_cast<GroupedShared<T>*>(start + (kSwizzleBytes - past) % kSwizzleBytes);
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; ++i) {
      start_barrier(shared.full + i, 1);
      start_barrier(shared.empty + i, kWarps);
    }
    publish_barriers();
  }
  __syncthreads();
  const int warp = static_cast<int>(threadIdx.x) / 32, steps = (tile.depth + kDepth - 1) / kDepth;
  if (warp == kWarps) {
    if (threadIdx.x % 32 == 0) load_steps<kOp>(shared, tile, maps, steps);
    return;
  }
  float sums[kTile / 2] = {};
  multiply_steps<kOp>(sums, shared, tile, steps);
  sync_named(1, 32 * kWarps);  // all operands were read
  store_sums(tile, all, reinterpret_cast<C*>(&shared) + warp * 16 * kPitch, sums, 16 * warp);
#endif
}

template <GroupedOp kOp, class T, class C>
void launch_of(Stream& stream, std::int64_t tiles_down, const HeadBoxes& a, const HeadBoxes& b,
               const Grouped<T, C>& all) {
  const int device = stream.device().index;
  launch(grouped_wgmma<kOp, T, C>, extent(tiles_down * parts(all.n, kTile)), kThreads,
         kSwizzleBytes + sizeof(GroupedShared<T>), stream,
         GroupedMaps{tensor_map_of<T>(a, device), tensor_map_of<T>(b, device)}, all);
}

template <class T, class C>
bool takes(const Stream& stream, const Grouped<T, C>& all, int width_a, int width_b) {
  return all.rows > 0 && all.vectors && all.c_vectors && width_a % kSwizzledRow == 0 &&
         width_b % kSwizzledRow == 0 && has_warpgroups(stream.device().index);
}

template <class T>
bool launch_product(Stream& stream, GroupedOp op, const Grouped<T, T>& all) {
  const bool transposed = op == GroupedOp::kTransposedProduct;
  if (!takes(stream, all, all.k, transposed ? all.k : all.n)) return false;
  const std::int64_t tiles = most_tiles<kTile>(all.rows, all.groups);
  const HeadBoxes a = column_boxes(all.a, 1, all.rows, all.k, kTile);
  if (transposed) {
    launch_of<GroupedOp::kTransposedProduct>(
        stream, tiles, a, column_boxes(all.b, all.matrices, all.n, all.k, kTile), all);
  } else {
    launch_of<GroupedOp::kProduct>(stream, tiles, a,
                                   column_boxes(all.b, all.matrices, all.k, all.n, kDepth), all);
  }
  return true;
}

template <class T>
bool launch_weight(Stream& stream, const Grouped<T, float>& all) {
  if (!takes(stream, all, all.m, all.n)) return false;
  launch_of<GroupedOp::kWeight>(stream, all.groups * parts(all.m, kTile),
                                column_boxes(all.a, 1, all.rows, all.m, kDepth),
                                column_boxes(all.b, 1, all.rows, all.n, kDepth), all);
  return true;
}

}  // namespace

bool launch_grouped_wgmma(Stream& stream, GroupedOp op, const Grouped<Bf16, Bf16>& all) {
  return launch_product(stream, op, all);
}
bool launch_grouped_wgmma(Stream& stream, GroupedOp op, const Grouped<F16, F16>& all) {
  return launch_product(stream, op, all);
}
bool launch_grouped_wgmma(Stream& stream, const Grouped<Bf16, float>& weight) {
  return launch_weight(stream, weight);
}
bool launch_grouped_wgmma(Stream& stream, const Grouped<F16, float>& weight) {
  return launch_weight(stream, weight);
}

}  // namespace trireme::ops::cuda
