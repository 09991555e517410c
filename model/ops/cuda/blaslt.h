#pragma once
#include <cublasLt.h>

// What our uses of cuBLASLt have in common. Seen only by sources of this room.
namespace trireme::ops::cuda {

// Throws EnvironmentError with the library's own words unless `status` is success.
void check(cublasStatus_t status, const char* call);

// Destroys what cuBLASLt has made.
struct BlasLtRelease {
  void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
  void operator()(cublasLtMatmulDesc_t product) const { cublasLtMatmulDescDestroy(product); }
  void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
  void operator()(cublasLtMatmulPreference_t wish) const { cublasLtMatmulPreferenceDestroy(wish); }
};

}  // namespace trireme::ops::cuda
