#pragma once
// Included only by kernel sources: deterministic reductions.
#include <cuda_runtime.h>

namespace trireme::ops::cuda {

// Sum over a warp, with the same bits in every lane.
template <class A>
__device__ A warp_sum(A value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

// Reduces the values of a block's threads, whole warps and at most kThreads, in a fixed order; all
// threads get the result.
template <int kThreads, class A, class Join>
__device__ __forceinline__ A over_block(A mine, const Join& join) {
  __shared__ A parts[kThreads / 32];
  for (int apart = 16; apart > 0; apart /= 2)
    mine = join(mine, __shfl_xor_sync(0xffffffffu, mine, apart));
  __syncthreads();  // parts of the previous call were read
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
  __syncthreads();
  A all = parts[0];
  for (unsigned i = 1; i < blockDim.x / 32; ++i) all = join(all, parts[i]);
  return all;
}

// Sum in order of at most kMost values. A warp calls it, with a `room` of its own; all lanes get
// the sum.
template <int kMost>
__device__ __forceinline__ double sum_in_order(const double* from, int count,
                                               double (&room)[kMost]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  double mine[kMost / 32];
#pragma unroll
  for (int i = 0; i < kMost / 32; ++i) mine[i] = lane + 32 * i < count ? from[lane + 32 * i] : 0;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kMost / 32; ++i) room[lane + 32 * i] = mine[i];
  __syncwarp();
  double sum = 0;
#pragma unroll 16
  for (int i = 0; i < count; ++i) sum += room[i];
  return sum;
}

// Threads that process one row: a warp or an aligned part of one, of a power of two of lanes, or a
// whole block of up to 32 warps.
template <class A>
struct Team {
  A (*room)[32];  // [2][32], per block; for teams larger than a warp
  int lane;       // in [0, lanes)
  int lanes;
  int turn = 0;

  // Sum over the team, with the same bits in every lane. All lanes of its warps must call it.
  __device__ A sum(A value) {
    if (lanes < 32) {
      for (int step = lanes / 2; step > 0; step /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
      return value;
    }
    value = warp_sum(value);
    if (lanes == 32) return value;
    // Double buffering: a lane that returns to a buffer has synchronized with all its readers.
    A* mine = room[turn];
    turn ^= 1;
    if (lane % 32 == 0) mine[lane / 32] = value;
    __syncthreads();
    return warp_sum(lane % 32 < lanes / 32 ? mine[lane % 32] : A(0));
  }
};

}  // namespace trireme::ops::cuda
