#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "model/device/cuda/check.h"
#include "model/ops/cuda/mma.cuh"
#include "model/ops/cuda/wgmma.cuh"
#include "model/tensor/dtype.h"

// Tensor maps: what the copy engine of compute capability 9.0 (TMA) copies to shared memory.
namespace trireme::ops::cuda {

// Heads of a tensor [batch, seq, heads, width] of 2-byte elements; a box is `rows` tokens of one.
struct HeadBoxes {
  const void* first = nullptr;  // aligned to 16 bytes
  std::int64_t batch = 0, seq = 0, heads = 0;
  std::int64_t width = 0;  // a multiple of 64
  int rows = 0;            // up to 256
};

// Boxes of [box_rows, 64] of matrices [matrices, rows, columns], columns a multiple of 64. For
// load_box(), a matrix is a sequence, and each 64 of its columns are a head.
inline HeadBoxes column_boxes(const void* first, std::int64_t matrices, std::int64_t rows,
                              std::int64_t columns, int box_rows) {
  return {.first = first,
          .batch = matrices,
          .seq = rows,
          .heads = columns / kSwizzledRow,
          .width = kSwizzledRow,
          .rows = box_rows};
}

using TensorMap = CUtensorMap;

// cuTensorMapEncodeTiled, of the driver that is there: nothing links it.
inline void* tensor_map_encoder(int device) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found,
                                                              12000, cudaEnableDefault, &result);
#else
  const cudaError_t status =
      cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &found, cudaEnableDefault, &result);
#endif
  trireme::cuda::check(status, device, "cudaGetDriverEntryPoint of cuTensorMapEncodeTiled");
  if (!found) throw EnvironmentError(say("cuda:", device, ": the driver has no tensor maps"));
  return found;
}

// Tokens beyond `seq` are zeros.
template <class T>
TensorMap tensor_map_of(const HeadBoxes& boxes, int device) {
  static void* const encode = tensor_map_encoder(device);
  TensorMap map{};
  const auto stride = static_cast<cuuint64_t>(boxes.heads * boxes.width) * sizeof(T);
  const auto columns = static_cast<cuuint64_t>(boxes.width / kSwizzledRow);
  const cuuint64_t sizes[] = {kSwizzledRow, static_cast<cuuint64_t>(boxes.seq), columns,
                              static_cast<cuuint64_t>(boxes.heads),
                              static_cast<cuuint64_t>(boxes.batch)};
  const cuuint64_t strides[] = {stride, kSwizzledRow * sizeof(T),
                                columns * kSwizzledRow * sizeof(T),
                                stride * static_cast<cuuint64_t>(boxes.seq)};
  const cuuint32_t box[] = {kSwizzledRow, static_cast<cuuint32_t>(boxes.rows),
                            static_cast<cuuint32_t>(columns), 1, 1};
  const cuuint32_t steps[] = {1, 1, 1, 1, 1};
  const CUresult status = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      &map,
      std::is_same_v<T, Bf16> ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      5, const_cast<void*>(boxes.first), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw EnvironmentError(say("cuda:", device, ": cuTensorMapEncodeTiled: error ", status));
  }
  return map;
}

// Starts the copy of a head's box from row `row` on to width / 64 tiles, one after the other, and
// counts its bytes at `barrier`. What is beyond the last row or head is zeros. Of one thread.
__device__ __forceinline__ void load_box(void* tile, const TensorMap& map, PhaseBarrier* barrier,
                                         int head, int row, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %3, %5, %6}], [%2];" ::"r"(shared_address(tile)),
      "l"(&map), "r"(shared_address(barrier)), "r"(0), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

}  // namespace trireme::ops::cuda
