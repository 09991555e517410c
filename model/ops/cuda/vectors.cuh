#pragma once
// Included only by kernel sources: adjacent elements of rows with any alignment.
#include <cuda_runtime.h>

#include <cstdint>

#include "model/tensor/tensor.h"

namespace trireme::ops::cuda {

// N adjacent elements, moved at once if aligned to their size or to 16 bytes.
template <class T, int N = 16 / static_cast<int>(sizeof(T))>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Vector {
  static constexpr int kLength = N;
  T x[N];

  static __device__ __forceinline__ bool fits(const T* at) {
    return reinterpret_cast<std::uintptr_t>(at) % alignof(Vector) == 0;
  }
};

// Loads the first `left` elements, the others zero; `fits`: the address is aligned.
template <class T, int N = Vector<T>::kLength>
__device__ __forceinline__ Vector<T, N> load_vector(const T* from, std::int64_t left, bool fits) {
  if (fits && left >= N) return *reinterpret_cast<const Vector<T, N>*>(from);
  Vector<T, N> value{};
#pragma unroll
  for (int e = 0; e < N; ++e) {
    if (e < left) value.x[e] = from[e];
  }
  return value;
}
template <class T, int N>
__device__ __forceinline__ void store_vector(T* to, const Vector<T, N>& value, std::int64_t left,
                                             bool fits) {
  if (fits && left >= N) {
    *reinterpret_cast<Vector<T, N>*>(to) = value;
    return;
  }
#pragma unroll
  for (int e = 0; e < N; ++e) {
    if (e < left) to[e] = value.x[e];
  }
}

// Whether rows of `width` elements from `tensor` on are whole aligned vectors.
inline bool in_vectors(const Tensor& tensor, std::int64_t width) {
  return reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0 &&
         width * static_cast<std::int64_t>(size_of(tensor.dtype)) % 16 == 0;
}

}  // namespace trireme::ops::cuda
