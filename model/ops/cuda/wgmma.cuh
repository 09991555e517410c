#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "model/device/cuda/check.h"
#include "model/ops/cuda/mma.cuh"

// Matrix products of warpgroups (wgmma), barriers with phases (mbarrier) and registers moved
// between warps (setmaxnreg), for compute capability 9.0. Only kernels compiled for sm_90a may use
// them. PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions", defines layouts and
// descriptors.
//
// A warpgroup is four consecutive warps, the first of a number divisible by four; its 128 threads
// call products, fences, commits and waits together. Of a product [64, N], warp w of the group has
// rows 16 w to 16 w + 15: lane 4 g + t has in c[4 n + 2 r + e] row 16 w + g + 8 r, column
// 8 n + 2 t + e. Fragments in registers are those of multiply() in mma.cuh.
//
// A tile in shared memory has rows of 64 2-byte elements, 128 bytes, and begins at a multiple of
// 1024 bytes. Chunk c, 16 bytes, of row r is at chunk c ^ r % 8 ("128-byte swizzle").
namespace trireme::ops::cuda {

// Whether this build's kernels for sm_90a run on a device.
inline bool has_warpgroups([[maybe_unused]] int device) {
#ifdef TRIREME_SM_90A
  int major = 0;
  trireme::cuda::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
                       device, "cudaDeviceGetAttribute");
  return major == 9;
#else
  return false;
#endif
}

inline int multiprocessors_of(int device) {
  int count = 0;
  trireme::cuda::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device),
                       device, "cudaDeviceGetAttribute");
  return count;
}

inline constexpr int kWarpgroup = 128;   // threads
inline constexpr int kSwizzledRow = 64;  // elements
inline constexpr int kSwizzleBytes = 1024;

// Of a tile, with the distance of the next ones along a row. Computed at each use: descriptors that
// stay in registers over a loop are too many.
__device__ __forceinline__ std::uint64_t descriptor_of(const void* tile, int tile_bytes) {
  std::uint32_t low =
      (shared_address(tile) & 0x3ffffu) >> 4 | static_cast<std::uint32_t>(tile_bytes >> 4) << 16;
  asm volatile("" : "+r"(low));
  return low | std::uint64_t{kSwizzleBytes >> 4} << 32 | std::uint64_t{1} << 62;
}
// Descriptor of tiles of which k goes along the rows ("K-major"): a row is a row of the left matrix
// or a column of the right one. Add k_step(i) for the i-th 16 elements of the rows.
__device__ __forceinline__ std::uint64_t along_rows(const void* tile) {
  return descriptor_of(tile, 16);
}
// Descriptor of tiles of which k goes from row to row ("MN-major"). Further 64 columns are in tiles
// that follow each other every `tile_bytes`. Add row_step(i) for the i-th 16 rows.
__device__ __forceinline__ std::uint64_t across_rows(const void* tile, int tile_bytes) {
  return descriptor_of(tile, tile_bytes);
}
__device__ __forceinline__ constexpr std::uint64_t k_step(int i) {
  return static_cast<std::uint64_t>(i) * (16 * 2 >> 4);
}
__device__ __forceinline__ constexpr std::uint64_t row_step(int i) {
  return static_cast<std::uint64_t>(i) * (16 * 128 >> 4);
}

#define TRIREME_LIST_32                                                                        \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TRIREME_LIST_64                                                                     \
  TRIREME_LIST_32                                                                           \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, " \
  "%49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TRIREME_SUMS_8(c, i)                                                                  \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
      "+f"(c[i + 6]), "+f"(c[i + 7])
#define TRIREME_SUMS_32(c, i)                                                \
  TRIREME_SUMS_8(c, i), TRIREME_SUMS_8(c, i + 8), TRIREME_SUMS_8(c, i + 16), \
      TRIREME_SUMS_8(c, i + 24)
#define TRIREME_SUMS_64(c, i) TRIREME_SUMS_32(c, i), TRIREME_SUMS_32(c, i + 32)

#define TRIREME_WGMMA_SHARED(n, type, list, sums, a, b, adds, across_a, across_b)                \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " adds ", 0; wgmma.mma_async.sync.aligned.m64n" n \
               "k16.f32." type "." type " {" list "}, " a ", " b ", p, 1, 1, " across_a          \
               ", " across_b "; }"                                                               \
               : sums                                                                            \
               : "l"(left), "l"(right), "r"(int{accumulate}), "n"(kLeftAcross ? 1 : 0),          \
                 "n"(kRightAcross ? 1 : 0))
#define TRIREME_WGMMA_REGISTERS(n, type, list, sums, a, b, adds, across_b)                       \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, " adds ", 0; wgmma.mma_async.sync.aligned.m64n" n \
               "k16.f32." type "." type " {" list "}, {" a "}, " b ", p, 1, 1, " across_b "; }"  \
               : sums                                                                            \
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(right),             \
                 "r"(int{accumulate}), "n"(kRightAcross ? 1 : 0))

// Starts c = left right, or c += left right if `accumulate`, of 16 terms, with both matrices in
// shared memory: across_rows descriptors if kLeftAcross, kRightAcross. N is 64 or 128.
template <class T, int N, bool kLeftAcross, bool kRightAcross>
__device__ __forceinline__ void start_product(float (&c)[N / 2], std::uint64_t left,
                                              std::uint64_t right, bool accumulate) {
  static_assert(N == 64 || N == 128);
  if constexpr (N == 64 && std::is_same_v<T, Bf16>) {
    TRIREME_WGMMA_SHARED("64", "bf16", TRIREME_LIST_32, TRIREME_SUMS_32(c, 0), "%32", "%33", "%34",
                         "%35", "%36");
  } else if constexpr (N == 64) {
    TRIREME_WGMMA_SHARED("64", "f16", TRIREME_LIST_32, TRIREME_SUMS_32(c, 0), "%32", "%33", "%34",
                         "%35", "%36");
  } else if constexpr (std::is_same_v<T, Bf16>) {
    TRIREME_WGMMA_SHARED("128", "bf16", TRIREME_LIST_64, TRIREME_SUMS_64(c, 0), "%64", "%65", "%66",
                         "%67", "%68");
  } else {
    TRIREME_WGMMA_SHARED("128", "f16", TRIREME_LIST_64, TRIREME_SUMS_64(c, 0), "%64", "%65", "%66",
                         "%67", "%68");
  }
}

// The same with `left` in registers, which must not change until the product is waited for.
template <class T, int N, bool kRightAcross>
__device__ __forceinline__ void start_product(float (&c)[N / 2], const std::uint32_t (&left)[4],
                                              std::uint64_t right, bool accumulate) {
  static_assert(N == 64 || N == 128);
  if constexpr (N == 64 && std::is_same_v<T, Bf16>) {
    TRIREME_WGMMA_REGISTERS("64", "bf16", TRIREME_LIST_32, TRIREME_SUMS_32(c, 0),
                            "%32, %33, %34, %35", "%36", "%37", "%38");
  } else if constexpr (N == 64) {
    TRIREME_WGMMA_REGISTERS("64", "f16", TRIREME_LIST_32, TRIREME_SUMS_32(c, 0),
                            "%32, %33, %34, %35", "%36", "%37", "%38");
  } else if constexpr (std::is_same_v<T, Bf16>) {
    TRIREME_WGMMA_REGISTERS("128", "bf16", TRIREME_LIST_64, TRIREME_SUMS_64(c, 0),
                            "%64, %65, %66, %67", "%68", "%69", "%70");
  } else {
    TRIREME_WGMMA_REGISTERS("128", "f16", TRIREME_LIST_64, TRIREME_SUMS_64(c, 0),
                            "%64, %65, %66, %67", "%68", "%69", "%70");
  }
}

#undef TRIREME_WGMMA_REGISTERS
#undef TRIREME_WGMMA_SHARED
#undef TRIREME_SUMS_64
#undef TRIREME_SUMS_32
#undef TRIREME_SUMS_8
#undef TRIREME_LIST_64
#undef TRIREME_LIST_32

// Keeps the compiler from moving what uses these registers across this point: before products, and
// after the wait for them.
__device__ __forceinline__ void hold(int& value) {
  asm volatile("" : "+r"(value)::"memory");
}
template <int kCount>
__device__ __forceinline__ void hold(float (&c)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(c[i])::"memory");
}
template <int kCount>
__device__ __forceinline__ void hold(std::uint32_t (&a)[kCount][4]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
#pragma unroll
    for (int j = 0; j < 4; ++j) asm volatile("" : "+r"(a[i][j])::"memory");
  }
}

// Before a batch of products whose registers this thread has written.
__device__ __forceinline__ void fence_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most `kUnderWay` committed batches are pending.
template <int kUnderWay>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kUnderWay) : "memory");
}

// The same, once `a` and `b` are known, which it writes to `scratch`, 8 bytes of this thread in
// shared memory. The assembler moves other waits up, above arithmetic that products should overlap.
template <int kUnderWay>
__device__ __forceinline__ void wait_products_after(float a, float b, float2* scratch) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(shared_address(scratch)), "f"(a), "f"(b)
               : "memory");
  wait_products<kUnderWay>();
}

// Lets products and copies of boxes that start after the next barrier see this thread's ordinary
// writes to shared memory.
__device__ __forceinline__ void publish_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Starts the copy of a row from shared to device memory, or its addition there in float32, where
// subnormal numbers count as zero. Addresses and `bytes` are multiples of 16; all threads that
// wrote the row have called publish_writes(). The one thread that calls it calls wait_rows() before
// the row is overwritten or the block ends.
__device__ __forceinline__ void store_row(void* to, const void* row, int bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
               "r"(shared_address(row)), "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void add_row(float* to, const float* row, int bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
      "r"(shared_address(row)), "r"(bytes)
      : "memory");
}
__device__ __forceinline__ void wait_rows() {
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;" ::: "memory");
}

// `value`; what is computed from it is computed at each use, not kept in registers over a loop.
__device__ __forceinline__ int computed_again(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

// Registers of each thread of the calling warpgroup from here on, a multiple of 8.
template <int kCount>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

// Barrier `id`, 1 to 15, of `threads` threads, whole warps, of which some only announce themselves.
__device__ __forceinline__ void sync_named(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ void arrive_named(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// A barrier in shared memory. A phase ends when `arrivals` threads have arrived and all bytes that
// they announced have been copied; the parity of the first is 0.
using PhaseBarrier = std::uint64_t;

__device__ __forceinline__ void start_barrier(PhaseBarrier* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}
// Of the thread that started barriers; a barrier of the block must follow.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void arrive(PhaseBarrier* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
__device__ __forceinline__ void arrive_expecting(PhaseBarrier* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
// Waits for the end of the current phase if its parity is `parity`.
__device__ __forceinline__ void wait_phase(PhaseBarrier* barrier, int parity) {
  asm volatile(
      "{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1; "
      "@!done bra again; }" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

}  // namespace trireme::ops::cuda
