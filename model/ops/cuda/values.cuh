#pragma once
// Included only by kernel sources: elements of tensors in registers, their loads and stores.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "model/ops/cuda/approximate.cuh"
#include "model/ops/dispatch.h"
#include "model/tensor/tensor.h"

namespace trireme::ops::cuda {

// Compute type: double for double, otherwise float.
template <class T>
using Sum = Accumulator<T>;

__device__ inline float widened(float value) {
  return value;
}
__device__ inline double widened(double value) {
  return value;
}
__device__ inline float widened(Bf16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}
__device__ inline float widened(F16 value) {
  return __half2float(__ushort_as_half(value.bits));
}

// Rounds to odd: towards zero with the last bit set unless exact, so that a second rounding, to 16
// bits, is correct.
__device__ inline float rounded_to_odd(double value) {
  const float cut = __double2float_rz(value);
  return static_cast<double>(cut) == value ? cut : __uint_as_float(__float_as_uint(cut) | 1u);
}

// Rounds to the nearest T, ties to even, with a single rounding from any type.
template <class T, class From>
__device__ T rounded(From value) {
  if constexpr (kIsAccumulator<T>) {
    return static_cast<T>(value);
  } else if constexpr (std::is_same_v<From, double>) {
    return rounded<T>(rounded_to_odd(value));
  } else {
    T result;
    if constexpr (std::is_same_v<T, Bf16>) {
      result.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
    } else {
      result.bits = __half_as_ushort(__float2half_rn(value));
    }
    return result;
  }
}

// e^value and 1 / value. Rounding to 16 bits hides what the approximations lack: a relative error
// of |value| 2^-24 of the one, an ulp of the other.
template <class T>
__device__ __forceinline__ Sum<T> exponential(Sum<T> value) {
  if constexpr (sizeof(T) == 2) {
    return power_of_two(value * 1.4426950408889634f);
  } else {
    return std::exp(value);
  }
}
template <class T>
__device__ __forceinline__ Sum<T> reciprocal(Sum<T> value) {
  if constexpr (sizeof(T) == 2) {
    return inverse_of(value);
  } else {
    return 1 / value;
  }
}

// tanh(value), for 16 bits with an error of less than 2^-21.
template <class T>
__device__ __forceinline__ Sum<T> hyperbolic_tangent(Sum<T> value) {
  if constexpr (sizeof(T) == 2) {
    return fmaf(-2, inverse_of(power_of_two(value * 2.8853900817779268f) + 1), 1);
  } else {
    return std::tanh(value);
  }
}

// Adjacent elements that are loaded and stored at once. In words: elements of 16 bits would occupy
// a register each.
template <class T, int kCount>
struct __align__(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Pack {
  static constexpr int kEach = sizeof(T) == 2 && kCount % 2 == 0 ? 2 : 1;
  std::conditional_t<kEach == 2, std::uint32_t, T> words[kCount / kEach];

  __device__ T operator[](int k) const {
    if constexpr (kEach == 1) {
      return words[k];
    } else {
      T element;
      element.bits = static_cast<std::uint16_t>(words[k / 2] >> 16 * (k % 2));
      return element;
    }
  }
};

template <int kCount, class T>
__device__ Pack<T, kCount> pack_at(const T* from) {
  return *reinterpret_cast<const Pack<T, kCount>*>(from);
}
template <int kCount, class T>
__device__ void widen(Sum<T> (&to)[kCount], const Pack<T, kCount>& pack) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) to[k] = widened(pack[k]);
}
template <class T, int kCount, class From>
__device__ Pack<T, kCount> packed(const From (&from)[kCount]) {
  Pack<T, kCount> pack;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const T element = rounded<T>(from[k]);
    if constexpr (pack.kEach == 1) {
      pack.words[k] = element;
    } else {
      const std::uint32_t bits = element.bits;
      pack.words[k / 2] = k % 2 == 0 ? bits : pack.words[k / 2] | bits << 16;
    }
  }
  return pack;
}

// Loads kCount elements from `from`, aligned to all of them or to 16 bytes, in the compute type.
template <int kCount, class T>
__device__ void load(Sum<T> (&to)[kCount], const T* from) {
  widen(to, pack_at<kCount>(from));
}
// Returns what it stored.
template <int kCount, class T, class From>
__device__ Pack<T, kCount> store(T* to, const From (&from)[kCount]) {
  const Pack<T, kCount> pack = packed<T>(from);
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
  return pack;
}

// N adjacent elements in T, for rows with any alignment: moved at once if aligned to their size or
// to 16 bytes.
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

// A tensor's data as a kernel's element type; null for an absent tensor.
template <class T>
T* at(const Tensor& tensor, std::int64_t first = 0) {
  return tensor ? tensor.as<T>() + first : nullptr;
}

// Whether packs of `bytes` can be used in all tensors; absent ones do not count.
template <class... Tensors>
bool aligned(std::size_t bytes, const Tensors&... tensors) {
  return ((reinterpret_cast<std::uintptr_t>(tensors.data) % bytes == 0) && ...);
}

template <int kCount>
using Count = std::integral_constant<int, kCount>;

// Calls body with the Count of elements of T in packs of `kBytes`, or Count<1> if tensors are not
// aligned or the width of rows is not a multiple.
template <class T, int kBytes = 16, class Body, class... Tensors>
void with_packs(std::int64_t width, const Body& body, const Tensors&... tensors) {
  constexpr int kCount = kBytes / static_cast<int>(sizeof(T));
  if (width % kCount == 0 && aligned(kBytes, tensors...)) {
    body(Count<kCount>{});
  } else {
    body(Count<1>{});
  }
}

}  // namespace trireme::ops::cuda
