#pragma once
// Included only by kernel sources.
#include <cuda_runtime.h>

namespace trireme::ops::cuda {

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

}  // namespace trireme::ops::cuda
