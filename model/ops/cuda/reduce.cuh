#pragma once
// Seen by kernel sources only: sums whose order is the same in every run.
#include <cuda_runtime.h>

namespace trireme::ops::cuda {

// The sum over a warp, the same bits in every lane.
template <class A>
__device__ A warp_sum(A value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  return value;
}

// Threads that share a row: a warp, or a whole block of up to 32 warps.
template <class A>
struct Team {
  A (*room)[32];  // [2][32], the block's; used only by teams beyond a warp
  int lane;       // of `lanes`
  int lanes;
  int turn = 0;

  // The sum over the team, the same bits in every lane. Every lane has to come.
  __device__ A sum(A value) {
    value = warp_sum(value);
    if (lanes <= 32) return value;
    // Two rooms by turns: whoever comes back to one has met all who read it.
    A* mine = room[turn];
    turn ^= 1;
    if (lane % 32 == 0) mine[lane / 32] = value;
    __syncthreads();
    return warp_sum(lane % 32 < lanes / 32 ? mine[lane % 32] : A(0));
  }
};

}  // namespace trireme::ops::cuda
