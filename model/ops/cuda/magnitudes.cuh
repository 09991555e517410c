#pragma once
// Included only by kernel sources: the largest magnitude of what a kernel stores (ops/float8.h).
#include "model/device/copy.h"
#include "model/ops/cuda/reduce.cuh"
#include "model/ops/cuda/values.cuh"
#include "model/ops/float8.h"

namespace trireme::ops::cuda {

struct Larger {
  __device__ unsigned operator()(unsigned a, unsigned b) const { return a > b ? a : b; }
};

// The larger magnitude of two bfloat16 values, as bits.
__device__ inline unsigned magnitude_of(unsigned word) {
  return Larger{}(word & 0x7fffu, word >> 16 & 0x7fffu);
}

// A thread's largest magnitude; nothing in kernels that do not collect it.
template <bool kCollects>
struct LargestMagnitude {
  template <class Stored>
  __device__ void add(const Stored&) {}
  template <int kThreads>
  __device__ void finish(int*) {}
  __device__ void finish_warp(int*) {}
};
template <>
struct LargestMagnitude<true> {
  unsigned most = 0;

  template <int kCount>
  __device__ void add(const Pack<Bf16, kCount>& stored) {
#pragma unroll
    for (const auto word : stored.words) {
      if constexpr (Pack<Bf16, kCount>::kEach == 2) {
        most = Larger{}(most, magnitude_of(word));
      } else {
        most = Larger{}(most, word.bits & 0x7fffu);
      }
    }
  }
  // All threads of a block of at most kThreads call it.
  template <int kThreads>
  __device__ void finish(int* magnitudes) {
    hand_over(magnitudes, over_block<kThreads>(most, Larger{}), threadIdx.x == 0);
  }
  // All lanes of a warp call it, whatever the other warps do.
  __device__ void finish_warp(int* magnitudes) {
    for (int apart = 16; apart > 0; apart /= 2)
      most = Larger{}(most, __shfl_xor_sync(0xffffffffu, most, apart));
    hand_over(magnitudes, most, threadIdx.x % 32 == 0);
  }

 private:
  // The maximum does not depend on the order. Many addresses: atomics to one wait for each other.
  static __device__ void hand_over(int* magnitudes, unsigned largest, bool is_mine) {
    if (is_mine) atomicMax(magnitudes + blockIdx.x % kMagnitudes, static_cast<int>(largest));
  }
};

// Calls body with whether the kernel collects `magnitudes`, which are cleared.
template <class T, class Body>
void with_magnitudes(Stream& stream, const Tensor& magnitudes, const Body& body) {
  if constexpr (std::is_same_v<T, Bf16>) {
    if (magnitudes) {
      fill_bytes(stream, magnitudes.data, 0, magnitudes.bytes());
      return body(std::true_type{});
    }
  }
  body(std::false_type{});
}

}  // namespace trireme::ops::cuda
