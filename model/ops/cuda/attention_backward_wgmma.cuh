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

// Tiles of the other kind have kRows rows; keys keep two sums, which leaves registers for fewer.
template <int W_, bool kOfKeys_>
struct BackwardPlan {
  static constexpr int W = W_;
  static constexpr bool kOfKeys = kOfKeys_;
  static constexpr int kGroups = 2;                // warpgroups that multiply
  static constexpr int kTaken = 240, kGiven = 24;  // registers of those and of the one that loads
  static constexpr int kRows = kOfKeys ? 64 : 128;
  static constexpr int kStages = kOfKeys ? 3 : 2;
  static constexpr int kOwn = 64 * kGroups;
  static constexpr int kTile = kRows * W;  // elements
  static constexpr int kThreads = kWarpgroup * (kGroups + 1);
  static constexpr int kReaders = kOfKeys ? kStages * kRows : 0;
  static constexpr int kTiles = 2 * 2 * (kOwn * W + kStages * kTile);  // bytes
  static constexpr int kBytes = kSwizzleBytes + kTiles +
                                kReaders * (2 * sizeof(float) + sizeof(int)) +
                                (2 * kStages + 1) * sizeof(PhaseBarrier);
};

// A block's shared memory. A query has its log-sum-exp in powers of two and its delta, and the
// first visible key.
template <class T, class P>
struct BackwardShared {
  T* own[2];
  T* others;  // [kStages, 2, kTile]
  float2* readers;
  int* starts;
  PhaseBarrier *full, *empty, *own_full;

  __device__ __forceinline__ BackwardShared() {
    auto* const all = trireme::cuda::dynamic_shared<unsigned char>();
    const auto at = static_cast<int>(shared_address(all) % kSwizzleBytes);
    own[0] = reinterpret_cast<T*>(all + (kSwizzleBytes - at) % kSwizzleBytes);
    own[1] = own[0] + P::kOwn * P::W;
    others = own[1] + P::kOwn * P::W;
    readers = reinterpret_cast<float2*>(others + P::kStages * 2 * P::kTile);
    starts = reinterpret_cast<int*>(readers + P::kReaders);
    full = reinterpret_cast<PhaseBarrier*>(starts + P::kReaders);
    empty = full + P::kStages;
    own_full = empty + P::kStages;
  }
};

template <int kStages>
struct Stage {
  int index = 0, parity = 0;
  __device__ __forceinline__ void advance() {
    if (++index == kStages) index = 0, parity ^= 1;
  }
};

// What a block goes over: for each head that shares its keys, if it owns keys, the other rows.
struct BackwardWalk {
  int batch, head, kv_head, heads;
  int first_own, first_other, end_other;

  template <class P, class T>
  static __device__ __forceinline__ BackwardWalk of(const AttentionHeads<T>& in) {
    BackwardWalk walk;
    walk.batch = static_cast<int>(blockIdx.y);
    walk.head = static_cast<int>(blockIdx.x);
    walk.kv_head = P::kOfKeys ? walk.head : walk.head / in.group();
    walk.heads = P::kOfKeys ? in.group() : 1;
    // The blocks with most work first: early keys and late queries.
    const auto tile = static_cast<int>(P::kOfKeys ? blockIdx.z : gridDim.z - 1 - blockIdx.z);
    walk.first_own = tile * P::kOwn;
    const int end_own = min(walk.first_own + P::kOwn, in.seq);
    const std::int32_t* const starts = in.starts(walk.batch);
    const int first = P::kOfKeys ? walk.first_own : starts[walk.first_own];
    walk.first_other = first / P::kRows * P::kRows;
    walk.end_other = P::kOfKeys ? end_of_readers(starts, in.seq, walk.first_own, end_own) : end_own;
    return walk;
  }
  // Calls body(head, first row) for each tile.
  template <class P, class Body>
  __device__ __forceinline__ void tiles(const Body& body) const {
#pragma unroll 1
    for (int i = 0; i < heads; ++i) {
#pragma unroll 1
      for (int row = first_other; row < end_other; row += P::kRows) body(head * heads + i, row);
    }
  }
};

template <class P, class T>
__device__ __forceinline__ void load_boxes(const BackwardShared<T, P>& shared,
                                           const AttentionHeads<T>& in, const TensorMap& qkv,
                                           const TensorMap& dout, const BackwardWalk& walk) {
  const int key = in.heads + walk.kv_head, value = key + in.kv_heads;
  const TensorMap& own_second = P::kOfKeys ? qkv : dout;
  const TensorMap& other_second = P::kOfKeys ? dout : qkv;
  arrive_expecting(shared.own_full, 2 * 2 * P::kOwn * P::W);
  for (int i = 0; i < P::kOwn / P::kRows; ++i) {
    const int row = walk.first_own + i * P::kRows;
    load_box(shared.own[0] + i * P::kTile, qkv, shared.own_full, P::kOfKeys ? key : walk.head, row,
             walk.batch);
    load_box(shared.own[1] + i * P::kTile, own_second, shared.own_full,
             P::kOfKeys ? value : walk.head, row, walk.batch);
  }
  Stage<P::kStages> at;
  walk.tiles<P>([&](int head, int row) {
    wait_phase(shared.empty + at.index, at.parity ^ 1);
    T* const to = shared.others + at.index * 2 * P::kTile;
    PhaseBarrier* const full = shared.full + at.index;
    arrive_expecting(full, 2 * 2 * P::kTile);
    load_box(to, qkv, full, P::kOfKeys ? head : key, row, walk.batch);
    load_box(to + P::kTile, other_second, full, P::kOfKeys ? head : value, row, walk.batch);
    at.advance();
  });
}

// Of one warp.
template <class P, class T>
__device__ __forceinline__ void load_readers(const BackwardShared<T, P>& shared,
                                             const AttentionHeads<T>& in,
                                             const AttentionGradient<T, float>& gradient,
                                             const BackwardWalk& walk) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
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
        start = in.document_start[token];
      }
      shared.readers[at.index * P::kRows + i] = reader;
      shared.starts[at.index * P::kRows + i] = start;
    }
    arrive(shared.full + at.index);
    at.advance();
  });
}

}  // namespace trireme::ops::cuda
