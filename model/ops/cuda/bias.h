#pragma once
#include "model/ops/gemm.h"

namespace trireme::ops::cuda {

void bias_backward(Stream&, Tensor dbias, Tensor dy, Into into);

}  // namespace trireme::ops::cuda
