#pragma once
#include <cublasLt.h>

// Helpers for cuBLASLt. Internal to model/ops/cuda.
namespace trireme::ops::cuda {

// Throws EnvironmentError with the library's error text unless `status` is success.
void check(cublasStatus_t status, const char* call);

// Deleter of cuBLASLt handles.
struct BlasLtRelease {
  void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
  void operator()(cublasLtMatmulDesc_t product) const { cublasLtMatmulDescDestroy(product); }
  void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
  void operator()(cublasLtMatmulPreference_t wish) const { cublasLtMatmulPreferenceDestroy(wish); }
};

}  // namespace trireme::ops::cuda
