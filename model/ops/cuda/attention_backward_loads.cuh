#pragma once
#include <climits>

#include "model/device/cuda/shared.cuh"
#include "model/ops/cuda/attention_kernels.h"
#include "model/ops/cuda/attention_mma.cuh"
#include "model/ops/cuda/tensor_map.cuh"
#include "model/ops/cuda/wgmma.cuh"

// What the backward kernels for sm_90a load, and where to: a block has own rows, of keys or of
// queries, and goes over tiles of rows of the other kind.
namespace trireme::ops::cuda {

// kOfQueries and kOfKeys: each warpgroup that multiplies has 64 own rows. kOfFewKeys: both have the
// same 64 keys, one takes the even tiles and one the odd, and they add their sums in the end: twice
// as many blocks, each half as long, which load twice as much.
enum class BackwardPass { kOfQueries, kOfKeys, kOfFewKeys };

// Tiles of the other kind have kRows rows; keys keep two sums, which leaves registers for fewer.
template <int W_, BackwardPass kPass>
struct BackwardPlan {
  static constexpr int W = W_;
  static constexpr bool kOfKeys = kPass != BackwardPass::kOfQueries;
  static constexpr bool kSharesKeys = kPass == BackwardPass::kOfFewKeys;
  static constexpr int kGroups = 2;  // warpgroups that multiply
  // Registers of a thread that multiplies, and of one that loads; a block has 64 Ki.
  static constexpr int kTaken = 240, kGiven = 24;
  static constexpr int kRows = kOfKeys ? 64 : 128;
  static constexpr int kStages = kSharesKeys ? 4 : kOfKeys ? 3 : 2;
  static constexpr int kOwn = kSharesKeys ? 64 : 64 * kGroups;
  static constexpr int kTile = kRows * W;  // elements
  static constexpr int kThreads = kWarpgroup * (kGroups + 1);
  static constexpr int kReaders = kOfKeys ? kStages * kRows : 1;  // an array is not empty
};

// The rows that a block goes over: of each head that shares its keys, if it owns keys.
struct BackwardWalk {
  int batch, head, kv_head, heads;
  int first_own, first_other, end_other;

  // The index-th, of those with most work, early keys or late queries, first. All lanes of a warp
  // call it.
  template <class P, class T>
  static __device__ __forceinline__ BackwardWalk of(const AttentionHeads<T>& in, int batch,
                                                    int index) {
    BackwardWalk walk;
    const int own_heads = P::kOfKeys ? in.kv_heads : in.heads, of_tile = own_heads * batch;
    const int tiles = (in.seq + P::kOwn - 1) / P::kOwn, tile = index / of_tile;
    walk.batch = index % of_tile / own_heads;
    walk.head = index % own_heads;
    walk.kv_head = P::kOfKeys ? walk.head : walk.head / in.group();
    walk.heads = P::kOfKeys ? in.group() : 1;
    walk.first_own = (P::kOfKeys ? tile : tiles - 1 - tile) * P::kOwn;
    const int end_own = min(walk.first_own + P::kOwn, in.seq);
    const RowRange others = P::kOfKeys ? in.readers(walk.batch, walk.first_own, end_own)
                                       : in.seen(walk.batch, walk.first_own, end_own);
    walk.first_other = others.first / P::kRows * P::kRows;
    walk.end_other = others.end;
    return walk;
  }
  // Calls body(head, first row) for each tile.
  template <class P, class Body>
  __device__ __forceinline__ void tiles(const Body& body) const {
    const int end = end_other;
#pragma unroll 1
    for (int i = 0; i < heads; ++i) {
#pragma unroll 1
      for (int row = first_other; row < end; row += P::kRows) body(head * heads + i, row);
    }
  }
};

// A query has its log-sum-exp in powers of two and its delta, and the first visible key.
template <class T, class P>
struct BackwardShared {
  T own[2][P::kOwn * P::W];
  T others[P::kStages][2][P::kTile];
  float2 readers[P::kReaders];
  int starts[P::kReaders];
  // Of the loads that fill tiles, and of the warps that have read them.
  PhaseBarrier own_full, full[P::kStages], empty[P::kStages];
  BackwardWalk walk;
};

template <int kStages>
struct Stage {
  int index = 0, parity = 0;
  __device__ __forceinline__ void advance() {
    if (++index == kStages) index = 0, parity ^= 1;
  }
};

// Of one thread.
template <class P, class T>
__device__ __forceinline__ void load_boxes(BackwardShared<T, P>& shared,
                                           const AttentionHeads<T>& in, const TensorMap& qkv,
                                           const TensorMap& dout) {
  const BackwardWalk& walk = shared.walk;
  const int key = in.heads + walk.kv_head, value = key + in.kv_heads;
  const TensorMap& own_second = P::kOfKeys ? qkv : dout;
  const TensorMap& other_second = P::kOfKeys ? dout : qkv;
  arrive_expecting(&shared.own_full, static_cast<int>(sizeof shared.own));
  for (int i = 0; i < P::kOwn / P::kRows; ++i) {
    const int row = walk.first_own + i * P::kRows;
    load_box(shared.own[0] + i * P::kTile, qkv, &shared.own_full, P::kOfKeys ? key : walk.head, row,
             walk.batch);
    load_box(shared.own[1] + i * P::kTile, own_second, &shared.own_full,
             P::kOfKeys ? value : walk.head, row, walk.batch);
  }
  Stage<P::kStages> at;
  walk.tiles<P>([&](int head, int row) {
    wait_phase(shared.empty + at.index, at.parity ^ 1);
    auto& to = shared.others[at.index];
    PhaseBarrier* const full = shared.full + at.index;
    arrive_expecting(full, static_cast<int>(sizeof to));
    load_box(to[0], qkv, full, P::kOfKeys ? head : key, row, walk.batch);
    load_box(to[1], other_second, full, P::kOfKeys ? head : value, row, walk.batch);
    at.advance();
  });
}

// Of one warp.
template <class P, class T>
__device__ __forceinline__ void load_readers(BackwardShared<T, P>& shared,
                                             const AttentionHeads<T>& in,
                                             const AttentionGradient<T, float>& gradient) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const BackwardWalk& walk = shared.walk;
  Stage<P::kStages> at;
  walk.tiles<P>([&](int head, int row) {
    wait_phase(shared.empty + at.index, at.parity ^ 1);
#pragma unroll 1
    for (int i = lane; i < P::kRows; i += 32) {
      float2 reader{0, 0};
      int start = INT_MAX;
      if (row + i < in.seq) {
        const int token = walk.batch * in.seq + row + i, from = token * in.heads + head;
        reader = {gradient.lse[from] * kLog2E, gradient.delta[from]};
        start = in.first_seen[token];
      }
      shared.readers[at.index * P::kRows + i] = reader;
      shared.starts[at.index * P::kRows + i] = start;
    }
    arrive(shared.full + at.index);
    at.advance();
  });
}

}  // namespace trireme::ops::cuda
