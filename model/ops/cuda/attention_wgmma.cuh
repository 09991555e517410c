#pragma once
#include <cmath>
#include <cstdint>

#include "model/ops/cuda/attention_heads.cuh"
#include "model/ops/cuda/attention_mma.cuh"
#include "model/ops/cuda/wgmma.cuh"

// Parts of the attention forward for compute capability 9.0: its tiles, the order of its work, and
// a warpgroup's scores and sums.
namespace trireme::ops::cuda {

// A block has kGroups warpgroups of 64 queries each, and one more that loads. A head's rows are in
// W / 64 tiles of 64 columns, one after the other.
template <int W_, int kGroups_>
struct AttentionTiling {
  static constexpr int W = W_, kGroups = kGroups_;
  static constexpr int kKeys = 128, kStages = 2, kQueryStages = 2;
  static constexpr int kGroupRows = 64, kRows = kGroupRows * kGroups;
  static constexpr int kThreads = (kGroups + 1) * kWarpgroup;
  static constexpr int kQueryTile = kGroupRows * W;  // elements
  static constexpr int kKeyTile = kKeys * W;
  // Registers of a thread that computes, and of one that loads: 64 Ki together.
  static constexpr int kComputing = kGroups == 2 ? 232 : 160;
  static constexpr int kLoading = kGroups == 2 ? 40 : 32;
};

// A tile of queries of one head, and its tiles of keys; none are left if `last_tile` is negative.
struct AttentionItem {
  int first_query, head, batch;
  int first_tile, last_tile;
};

template <class H, class T>
struct AttentionShared {
  T queries[H::kQueryStages][H::kGroups][H::kQueryTile];
  T keys[H::kStages][H::kKeyTile];
  T values[H::kStages][H::kKeyTile];
  T out[H::kGroups][H::kQueryTile];
  // Of the loads that fill tiles, and of the warps that have read them. An item comes with its
  // queries.
  PhaseBarrier queries_full[H::kQueryStages], queries_empty[H::kQueryStages];
  PhaseBarrier keys_full[H::kStages], keys_empty[H::kStages];
  PhaseBarrier values_full[H::kStages], values_empty[H::kStages];
  // One more than queries: a warp that has read its queries still reads their item.
  AttentionItem items[H::kQueryStages + 1];
};

// Where the `count`-th use of a ring of tiles is, and the parity of its barriers' phase.
template <int kStages>
__device__ __forceinline__ int stage_of(int count) {
  return count % kStages;
}
template <int kStages>
__device__ __forceinline__ int parity_of(int count) {
  return count / kStages % 2;
}

// The `index`-th of all items. Without a mask, the longest come first.
template <class H, class T>
__device__ __forceinline__ AttentionItem item_of(const AttentionHeads<T>& in, int batch,
                                                 int index) {
  const int heads = in.heads * batch, tiles = (in.seq + H::kRows - 1) / H::kRows;
  AttentionItem item{};
  if (index >= heads * tiles) {
    item.last_tile = -1;
    return item;
  }
  item.first_query = (tiles - 1 - index / heads) * H::kRows;
  item.batch = index % heads / in.heads;
  item.head = index % in.heads;
  item.first_tile = in.starts(item.batch)[item.first_query] / H::kKeys;
  item.last_tile = (min(item.first_query + H::kRows, in.seq) - 1) / H::kKeys;
  return item;
}

// For rows g and g + 8 of a warp's 16: the running maximum score in powers of two, this thread's
// part of the sum of powers, and the first visible key.
struct RunningRows {
  float top[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0, 0};
  int start[2];
};

// Of a warp's queries from `first_query` on.
template <int kKeys>
__device__ __forceinline__ void mask_scores(float (&scores)[kKeys / 2], const RunningRows& rows,
                                            int first_query, int first_key) {
  const int lane = static_cast<int>(threadIdx.x) % 32, from = first_key + lane % 4 * 2;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int last = first_query + lane / 4 + 8 * r - from, first = rows.start[r] - from;
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) {
      const int key = i / 2 * 8 + i % 2;
      if (key > last || key < first) scores[i / 2 * 4 + 2 * r + i % 2] = -INFINITY;
    }
  }
}

// Scores become 2^(scale score - running maximum); `shrink` rescales earlier sums. Maxima and sums
// go over four parts, so that instructions do not wait for each other.
template <int kKeys>
__device__ __forceinline__ void online_softmax(float (&scores)[kKeys / 2], float (&shrink)[2],
                                               RunningRows& rows, float scale) {
  constexpr int kParts = 4;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float part[kParts];
#pragma unroll
    for (int i = 0; i < kParts; ++i) part[i] = scores[i / 2 * 4 + 2 * r + i % 2];
#pragma unroll
    for (int i = kParts; i < kKeys / 4; ++i)
      part[i % kParts] = fmaxf(part[i % kParts], scores[i / 2 * 4 + 2 * r + i % 2]);
    float largest = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
    const float now = fmaxf(rows.top[r], largest * scale);
    // No visible key yet: any finite number works, as all terms are zero.
    const float base = now == -INFINITY ? 0.0f : now;
    shrink[r] = power_of_two(rows.top[r] - base);
    rows.top[r] = now;
#pragma unroll
    for (int i = 0; i < kParts; ++i) part[i] = 0;
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) {
      float& score = scores[i / 2 * 4 + 2 * r + i % 2];
      score = power_of_two(fmaf(score, scale, -base));
      part[i % kParts] += score;
    }
    rows.sum[r] = rows.sum[r] * shrink[r] + ((part[0] + part[1]) + (part[2] + part[3]));
  }
}

// Scores as left fragments of the product with values.
template <class T, int kKeys>
__device__ __forceinline__ void pack_weights(std::uint32_t (&weights)[kKeys / 16][4],
                                             const float (&scores)[kKeys / 2]) {
#pragma unroll
  for (int k = 0; k < kKeys / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      weights[k][i] = pack<T>(scores[8 * k + 2 * i], scores[8 * k + 2 * i + 1]);
  }
}

// scores [64, kKeys] = a group's queries times a tile of keys, transposed.
template <class H, class T>
__device__ __forceinline__ void start_scores(float (&scores)[H::kKeys / 2], const T* queries,
                                             const T* keys) {
  const std::uint64_t left = along_rows(queries), right = along_rows(keys);
#pragma unroll
  for (int i = 0; i < H::W / 16; ++i) {
    const int column = i / 4 * kSwizzledRow * 2 >> 4;
    start_product<T, H::kKeys, false, false>(scores, left + H::kGroupRows * column + k_step(i % 4),
                                             right + H::kKeys * column + k_step(i % 4), i > 0);
  }
}

// mixed [64, W] += weights [64, kKeys] times a tile of values.
template <class H, class T>
__device__ __forceinline__ void start_mix(float (&mixed)[H::W / 2],
                                          const std::uint32_t (&weights)[H::kKeys / 16][4],
                                          const T* values) {
  constexpr int kTileBytes = H::kKeys * kSwizzledRow * static_cast<int>(sizeof(T));
#pragma unroll
  for (int k = 0; k < H::kKeys / 16; ++k) {
    start_product<T, H::W, true>(mixed, weights[k], across_rows(values, kTileBytes) + row_step(k),
                                 true);
  }
}

}  // namespace trireme::ops::cuda
