#include "model/ops/cuda/blaslt.h"

#include "model/base/error.h"

namespace trireme::ops::cuda {

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw EnvironmentError(
      say(call, ": ", cublasLtGetStatusString(status), " (", cublasLtGetStatusName(status), ")"));
}

}  // namespace trireme::ops::cuda
