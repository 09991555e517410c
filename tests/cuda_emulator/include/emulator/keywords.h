#pragma once
// The words that CUDA adds to C++. Blocks run one after the other on one host thread, so a
// block's shared memory can be static.

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) alignas(bytes)
#define __grid_constant__
