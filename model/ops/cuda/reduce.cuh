#pragma once
// Included only by kernel sources: deterministic sums.
#include <cuda_runtime.h>

namespace trireme::ops::cuda {

// Sum over a warp, with the same bits in every lane.
template <class A>
__device__ A warp_sum(A value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

// Threads that process one row: a warp, or a whole block of up to 32 warps.
template <class A>
struct Team {
  A (*room)[32];  // [2][32], per block; for teams larger than a warp
  int lane;       // in [0, lanes)
  int lanes;
  int turn = 0;

  // Sum over the team, with the same bits in every lane. All lanes must call it.
  __device__ A sum(A value) {
    value = warp_sum(value);
    if (lanes <= 32) return value;
    // Double buffering: a lane that returns to a buffer has synchronized with all its readers.
    A* mine = room[turn];
    turn ^= 1;
    if (lane % 32 == 0) mine[lane / 32] = value;
    __syncthreads();
    return warp_sum(lane % 32 < lanes / 32 ? mine[lane % 32] : A(0));
  }
};

}  // namespace trireme::ops::cuda
