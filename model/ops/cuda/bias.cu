#include "model/ops/gemm.h"

#include "model/ops/cuda/column_sums.h"

namespace trireme::ops::cuda {

void bias_backward(Stream& stream, Tensor dbias, Tensor dy, Accumulate accumulate) {
  column_sums(stream, dbias, dy, accumulate);
}

}  // namespace trireme::ops::cuda
