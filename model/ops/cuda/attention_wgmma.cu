#include "model/ops/cuda/attention_wgmma.cuh"

#include <algorithm>

#include "model/device/cuda/backend.h"
#include "model/device/cuda/launch.cuh"
#include "model/device/cuda/shared.cuh"
#include "model/ops/cuda/attention_kernels.h"
#include "model/ops/cuda/tensor_map.cuh"

// The attention forward on warpgroup products, after FlashAttention-3 (Shah et al. 2024,
// arXiv:2407.08608): one warpgroup loads tiles by the copy engine, the others compute and take
// turns: while one computes powers, another multiplies. Each starts the scores of the next keys
// before it accumulates the values of the keys before.
namespace trireme::ops::cuda {
namespace {

using trireme::cuda::extent;
using trireme::cuda::launch;
using trireme::cuda::parts;

// Heads of 64 in sequences from this on take three warpgroups: powers take as long as products
// there, but short sequences fill tiles of 192 queries badly.
constexpr int kLongFrom = 2048;

template <class H, class T>
__device__ __forceinline__ AttentionShared<H, T>& shared_tiles() {
  auto* const bytes = trireme::cuda::dynamic_shared<unsigned char>();
  const std::uint32_t beyond = shared_address(bytes) % kSwizzleBytes;
  return *reinterpret_cast<AttentionShared<H, T>*>(bytes +
                                                   (kSwizzleBytes - beyond) % kSwizzleBytes);
}

template <class H, class T>
__device__ __forceinline__ void start_barriers(AttentionShared<H, T>& shared) {
  constexpr int kWarps = 4 * H::kGroups;
  for (int i = 0; i < H::kQueryStages; ++i) {
    start_barrier(&shared.queries_full[i], 1);
    start_barrier(&shared.queries_empty[i], kWarps);
  }
  for (int i = 0; i < H::kStages; ++i) {
    start_barrier(&shared.keys_full[i], 1);
    start_barrier(&shared.keys_empty[i], kWarps);
    start_barrier(&shared.values_full[i], 1);
    start_barrier(&shared.values_empty[i], kWarps);
  }
  publish_barriers();
}

// The loading thread's work. Blocks draw their items from the counter `next`, as some take longer
// and other kernels may occupy multiprocessors.
template <class H, class T>
__device__ __forceinline__ void load_tiles(AttentionShared<H, T>& shared, const TensorMap& queries,
                                           const TensorMap& keys, const AttentionHeads<T>& in,
                                           int batch, int* next) {
  constexpr int kKeyBytes = H::kKeyTile * static_cast<int>(sizeof(T));
  int index = atomicAdd(next, 1);
  for (int items = 0, tiles = 0;; ++items) {
    const AttentionItem item = item_of<H>(in, batch, index);
    const int place = stage_of<H::kQueryStages>(items);
    PhaseBarrier* const full = &shared.queries_full[place];
    wait_phase(&shared.queries_empty[place], parity_of<H::kQueryStages>(items) ^ 1);
    shared.items[items % (H::kQueryStages + 1)] = item;
    if (item.last_tile < 0) return arrive(full);
    arrive_expecting(full, static_cast<int>(sizeof(shared.queries[place])));
    for (int group = 0; group < H::kGroups; ++group) {
      load_box(shared.queries[place][group], queries, full, item.head,
               item.first_query + H::kGroupRows * group, item.batch);
    }
    index = atomicAdd(next, 1);
    const int kv_head = in.heads + item.head / in.group();
#pragma unroll 1
    for (int tile = item.last_tile; tile >= item.first_tile; --tile, ++tiles) {
      const int stage = stage_of<H::kStages>(tiles), parity = parity_of<H::kStages>(tiles);
      wait_phase(&shared.keys_empty[stage], parity ^ 1);
      arrive_expecting(&shared.keys_full[stage], kKeyBytes);
      load_box(shared.keys[stage], keys, &shared.keys_full[stage], kv_head, tile * H::kKeys,
               item.batch);
      wait_phase(&shared.values_empty[stage], parity ^ 1);
      arrive_expecting(&shared.values_full[stage], kKeyBytes);
      load_box(shared.values[stage], keys, &shared.values_full[stage], kv_head + in.kv_heads,
               tile * H::kKeys, item.batch);
    }
  }
}

// Stores a warp's 16 rows by way of `tile`, its group's, which only this warp touches there.
template <class H, class T>
__device__ __forceinline__ void store_out(const HeadRows<T>& to, T* tile, int row, int first,
                                          const float (&mixed)[H::W / 2], const float (&sum)[2]) {
  int lane = static_cast<int>(threadIdx.x) % 32;
  hold(lane);  // addresses kept over the loop would take too many registers
  const int g = lane / 4, t = lane % 4;
  const float factor[2] = {1 / sum[0], 1 / sum[1]};
#pragma unroll
  for (int i = 0; i < H::W / 4; ++i) {
    const int r = i % 2;
    const float* const pair = mixed + 2 * i;
    T* const at = tile + place<H::W>(row + g + 8 * r, i / 2) + 2 * t;
    *reinterpret_cast<std::uint32_t*>(at) = pack<T>(pair[0] * factor[r], pair[1] * factor[r]);
  }
  __syncwarp();
  store_rows<H::W>(to, tile, row, first);
  __syncwarp();
}

// The work of a warpgroup that computes, `group` from 0.
template <class H, class T>
__device__ __forceinline__ void compute(AttentionShared<H, T>& shared, const AttentionHeads<T>& in,
                                        const AttentionResult<T, float>& to, int group) {
  constexpr int kKeys = H::kKeys;
  constexpr float kLn2 = 0.6931471805599453f;
  const int warp = static_cast<int>(threadIdx.x) / 32 % 4;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float scale = static_cast<float>(in.scale) * kLog2E;
  const auto release = [&](PhaseBarrier& empty) {
    if (lane == 0) arrive(&empty);
  };
  // Barrier 1 + g gives group g its turn to start products.
  const int turn = 1 + group, next_turn = 1 + (group + 1) % H::kGroups;
  if (group == H::kGroups - 1) arrive_named(next_turn, 2 * kWarpgroup);

  // Tiles of keys go one ahead of those of values.
  const auto wait_full = [&](PhaseBarrier* full, int count) {
    wait_phase(&full[stage_of<H::kStages>(count)], parity_of<H::kStages>(count));
  };
  for (int items = 0, tiles = 0;; ++items) {
    const int place = stage_of<H::kQueryStages>(items);
    wait_phase(&shared.queries_full[place], parity_of<H::kQueryStages>(items));
    const AttentionItem& item = shared.items[items % (H::kQueryStages + 1)];
    if (item.last_tile < 0) return;
    const std::int32_t* const starts = in.starts(item.batch);
    const int first_row = item.first_query + H::kGroupRows * group + kWarpRows * warp;
    const int last_start = starts[min(first_row + kWarpRows, in.seq) - 1];
    RunningRows rows;
    for (int r = 0; r < 2; ++r) {
      rows.start[r] = starts[min(first_row + lane / 4 + 8 * r, in.seq - 1)];
    }
    float mixed[H::W / 2];
#pragma unroll
    for (float& sum : mixed) sum = 0;
    float scores[kKeys / 2], shrink[2];
    std::uint32_t weights[kKeys / 16][4];
    const auto softmax_tile = [&](int tile) {
      const int first_key = tile * kKeys;
      if (first_key + kKeys - 1 > first_row || first_key < last_start)
        mask_scores<kKeys>(scores, rows, first_row, first_key);
      online_softmax<kKeys>(scores, shrink, rows, scale);
    };

    const auto multiply_queries = [&] {
      start_scores<H>(scores, shared.queries[place][group],
                      shared.keys[stage_of<H::kStages>(tiles)]);
      commit_products();
    };
    const auto multiply_weights = [&](int count) {
      start_mix<H>(mixed, weights, shared.values[stage_of<H::kStages>(count)]);
      commit_products();
    };

    wait_full(shared.keys_full, tiles);
    fence_products();
    multiply_queries();
    wait_products<0>();
    hold(scores);
    release(shared.keys_empty[stage_of<H::kStages>(tiles)]);
    softmax_tile(item.last_tile);
    pack_weights<T, kKeys>(weights, scores);

    for (int tile = item.last_tile - 1; tile >= item.first_tile; --tile) {
      ++tiles;
      wait_full(shared.keys_full, tiles);
      sync_named(turn, 2 * kWarpgroup);
      hold(mixed);
      hold(weights);
      fence_products();
      multiply_queries();
      wait_full(shared.values_full, tiles - 1);
      multiply_weights(tiles - 1);
      arrive_named(next_turn, 2 * kWarpgroup);
      wait_products<1>();
      hold(scores);
      release(shared.keys_empty[stage_of<H::kStages>(tiles)]);
      softmax_tile(tile);
      // The warp's rows of `out` are free until they are stored.
      wait_products_after<0>(
          rows.sum[0], rows.sum[1],
          reinterpret_cast<float2*>(shared.out[group] + kWarpRows * warp * H::W) + lane);
      hold(mixed);
      hold(weights);
      release(shared.values_empty[stage_of<H::kStages>(tiles - 1)]);
      // Few maxima change after the first tiles.
      if (__any_sync(0xffffffffu, shrink[0] != 1 || shrink[1] != 1)) {
#pragma unroll
        for (int i = 0; i < H::W / 2; ++i) mixed[i] *= shrink[i / 2 % 2];
      }
      pack_weights<T, kKeys>(weights, scores);
    }
    release(shared.queries_empty[place]);
    wait_full(shared.values_full, tiles);
    hold(mixed);
    hold(weights);
    fence_products();
    multiply_weights(tiles);
    wait_products<0>();
    hold(mixed);
    release(shared.values_empty[stage_of<H::kStages>(tiles)]);
    ++tiles;

    for (int r = 0; r < 2; ++r) {
      rows.sum[r] += __shfl_xor_sync(0xffffffffu, rows.sum[r], 1);
      rows.sum[r] += __shfl_xor_sync(0xffffffffu, rows.sum[r], 2);
      const int query = first_row + lane / 4 + 8 * r;
      if (lane % 4 == 0 && query < in.seq) {
        to.lse[(std::int64_t{item.batch} * in.seq + query) * in.heads + item.head] =
            rows.top[r] * kLn2 + logf(rows.sum[r]);
      }
    }
    store_out<H>(in.of_queries(to.out, item.batch, item.head), shared.out[group], kWarpRows * warp,
                 first_row, mixed, rows.sum);
  }
}

template <class H, class T>
__global__ __launch_bounds__(H::kThreads, 1) void attention_wgmma(
    const __grid_constant__ TensorMap queries, const __grid_constant__ TensorMap keys,
    const AttentionHeads<T> in, const AttentionResult<T, float> to, int batch) {
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
  AttentionShared<H, T>& shared = shared_tiles<H, T>();
  if (threadIdx.x == 0) start_barriers(shared);
  __syncthreads();
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup;
  if (warpgroup == 0) {
    give_registers<H::kLoading>();
    if (threadIdx.x == 0) load_tiles(shared, queries, keys, in, batch, to.next);
  } else {
    take_registers<H::kComputing>();
    compute(shared, in, to, warpgroup - 1);
  }
#endif
}

template <class H, class T>
void launch_tiling(Stream& stream, int batch, const AttentionHeads<T>& in,
                   const AttentionResult<T, float>& to) {
  const int device = stream.device().index;
  HeadBoxes boxes{.first = in.qkv,
                  .batch = batch,
                  .seq = in.seq,
                  .heads = in.heads + 2 * in.kv_heads,
                  .width = in.width,
                  .rows = H::kGroupRows};
  const TensorMap queries = tensor_map_of<T>(boxes, device);
  boxes.rows = H::kKeys;
  const TensorMap keys = tensor_map_of<T>(boxes, device);
  const std::int64_t items = parts(in.seq, H::kRows) * in.heads * batch;
  const auto blocks = std::min<std::int64_t>(items, multiprocessors_of(device));
  trireme::cuda::fill(reinterpret_cast<std::byte*>(to.next), 0, sizeof(*to.next), stream.handle(),
                      device);
  launch(attention_wgmma<H, T>, extent(blocks), H::kThreads,
         kSwizzleBytes + sizeof(AttentionShared<H, T>), stream, queries, keys, in, to, batch);
}

template <class T>
bool launch_of(Stream& stream, int batch, const AttentionHeads<T>& in,
               const AttentionResult<T, float>& to) {
  if (!in.vectors || in.cap > 0 || !has_warpgroups(stream.device().index)) return false;
  if (in.width == 64 && in.seq < kLongFrom) {
    launch_tiling<AttentionTiling<64, 2>>(stream, batch, in, to);
  } else if (in.width == 64) {
    launch_tiling<AttentionTiling<64, 3>>(stream, batch, in, to);
  } else if (in.width == 128) {
    launch_tiling<AttentionTiling<128, 2>>(stream, batch, in, to);
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool launch_attention_wgmma(Stream& stream, int batch, const AttentionHeads<Bf16>& in,
                            const AttentionResult<Bf16, float>& to) {
  return launch_of(stream, batch, in, to);
}
bool launch_attention_wgmma(Stream& stream, int batch, const AttentionHeads<F16>& in,
                            const AttentionResult<F16, float>& to) {
  return launch_of(stream, batch, in, to);
}

}  // namespace trireme::ops::cuda
