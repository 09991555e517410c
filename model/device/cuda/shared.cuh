#pragma once
// Included only by kernel sources.

namespace trireme::cuda {

// The block's dynamic shared memory, aligned for 16-byte accesses.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char trireme_dynamic_shared[];
  return reinterpret_cast<T*>(trireme_dynamic_shared);
}

}  // namespace trireme::cuda
