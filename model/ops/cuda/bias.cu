#include "model/ops/cuda/bias.h"

#include "model/ops/cuda/column_sums.h"

namespace trireme::ops::cuda {

void bias_backward(Stream& stream, Tensor dbias, Tensor dy, Into into) {
  column_sums(stream, dbias, dy, into);
}

}  // namespace trireme::ops::cuda
