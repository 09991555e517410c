#include "model/ops/gemm.h"

#include "model/ops/cpu/column_sums.h"

namespace trireme::ops::cpu {

void bias_backward(Stream&, Tensor dbias, Tensor dy, Accumulate accumulate) {
  column_sums(dbias, dy, accumulate);
}

}  // namespace trireme::ops::cpu
