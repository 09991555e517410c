#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>

#include "tests/cuda_emulator/matrix_product.h"

namespace trireme::emulator {

// Algorithms that cuBLASLt proposes and that then fail, as on a device with less than it supposes.
std::set<Way>& failing_ways();

}  // namespace trireme::emulator

// What is behind the handles of the emulated cuBLASLt.
struct cublasLtContext {
  bool lives = true;
};
struct cublasLtMatrixLayoutOpaque_t {
  trireme::emulator::Matrix matrix;
};
struct cublasLtMatmulDescOpaque_t {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t of_a = CUBLAS_OP_N, of_b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const std::byte* bias = nullptr;
  const std::byte *scale_of_a = nullptr, *scale_of_b = nullptr;  // unset: 1
  std::optional<std::int32_t> bias_type;                         // unset: d's
};
struct cublasLtMatmulPreferenceOpaque_t {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t schemes = ~0u;
  std::uint32_t alignments[4] = {256, 256, 256, 256};
};
