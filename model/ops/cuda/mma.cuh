#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "model/ops/cuda/approximate.cuh"
#include "model/tensor/dtype.h"

// Tensor-core instructions and their loads, for compute capability 8.0 and later; with wgmma.cuh
// and tensor_map.cuh the only inline PTX of products. All 32 lanes of a warp must call each
// function together, except copies and packing. A pair is two adjacent elements of T, Bf16
// or F16, the first in the low half.
//
// Fragments of a 16 x 8 x 16 product, for lane = 4 g + t:
//   a[0] A[g][2t..]   a[1] A[g+8][2t..]   a[2] A[g][2t+8..]   a[3] A[g+8][2t+8..]
//   b0   B[2t..][g]   b1   B[2t+8..][g]
//   c[0], c[1] C[g][2t], C[g][2t+1]       c[2], c[3] C[g+8][2t], C[g+8][2t+1]
namespace trireme::ops::cuda {

// c += a b, accumulated in float32.
template <class T>
__device__ __forceinline__ void multiply(float (&c)[4], const std::uint32_t (&a)[4],
                                         std::uint32_t b0, std::uint32_t b1) {
  if constexpr (std::is_same_v<T, Bf16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

__device__ __forceinline__ std::uint32_t shared_address(const void* shared) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
}

// Loads four 8 x 8 matrices of 2-byte elements. Lane i gives the address of row i % 8, 16 aligned
// bytes, of matrix i / 8; to[m] is the pair [g][2t] of matrix m.
__device__ __forceinline__ void load_matrices(std::uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

// Same, transposed: to[m] has [2t][g] and [2t+1][g].
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

// Asynchronous copy of 16 bytes to shared memory, or zero fill if not `wanted`; both addresses are
// 16-byte aligned, and `from` need only be readable if wanted.
__device__ __forceinline__ void start_copy(void* shared, const void* from, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(__cvta_generic_to_global(from)), "r"(wanted ? 16 : 0)
               : "memory");
}
// Commits this thread's group of copies.
__device__ __forceinline__ void close_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits until at most `kUnderWay` of this thread's groups are pending.
template <int kUnderWay>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kUnderWay) : "memory");
}

template <class T>
__device__ __forceinline__ std::uint32_t pack(float first, float second) {
  std::uint32_t pair = 0;
  if constexpr (std::is_same_v<T, Bf16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  }
  return pair;
}

}  // namespace trireme::ops::cuda
