#include <cstring>

#include "tests/cuda_emulator/cublaslt.h"

namespace {

template <class Value>
cublasStatus_t take(Value& into, const void* from, std::size_t bytes) {
  if (!from || bytes != sizeof into) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&into, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

std::size_t cublasLtGetVersion() {
  return 130000;
}
const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      break;
  }
  return "CUBLAS_STATUS_NOT_SUPPORTED";
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  return cublasLtGetStatusName(status);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t leading) {
  const auto high = static_cast<std::int64_t>(rows), wide = static_cast<std::int64_t>(columns);
  if (high <= 0 || wide <= 0 || leading < high) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = new cublasLtMatrixLayoutOpaque_t{{nullptr, type, high, wide, leading, false}};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *product = new cublasLtMatmulDescOpaque_t{.compute = compute, .scale = scale, .bias_type = {}};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void* value, std::size_t bytes) {
  switch (what) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return take(product->of_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return take(product->of_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return take(product->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return take(product->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return take(product->scale_of_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return take(product->scale_of_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return take(product->bias_type.emplace(), value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete product;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* wish) {
  *wish = new cublasLtMatmulPreferenceOpaque_t;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t wish,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void* value, std::size_t bytes) {
  switch (what) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return take(wish->workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return take(wish->schemes, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return take(wish->alignments[what - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value,
                  bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wish) {
  delete wish;
  return CUBLAS_STATUS_SUCCESS;
}
