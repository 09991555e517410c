#pragma once
// Included only by kernel sources: kernels over tensors whose shape does not matter.
#include "model/device/cuda/launch.cuh"
#include "model/ops/cuda/values.cuh"

namespace trireme::ops::cuda {

constexpr int kFlatThreads = 256;
constexpr std::int64_t kNoRows = 0;  // for with_packs: the caller handles the last partial pack

// Number of blocks of a kernel that calls over_flat<kCount>(count, ...).
template <int kCount>
unsigned flat_blocks(std::int64_t count) {
  return trireme::cuda::extent(trireme::cuda::parts(count / kCount + count % kCount, kFlatThreads));
}

// Calls body(Count<n>, first) for this thread's n elements from `first` on: a whole pack, or one of
// the elements after the last whole pack.
template <int kCount, class Body>
__device__ void over_flat(std::int64_t count, const Body& body) {
  const std::int64_t packs = count / kCount;
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kFlatThreads + threadIdx.x;
  if (i < packs) {
    body(Count<kCount>{}, i * kCount);
  } else if (const std::int64_t first = packs * kCount + (i - packs); first < count) {
    body(Count<1>{}, first);
  }
}

}  // namespace trireme::ops::cuda
