#pragma once
#include "model/ops/gemm.h"

namespace trireme::ops::cpu {

void bias_backward(Stream&, Tensor dbias, Tensor dy, Accumulate accumulate);

}  // namespace trireme::ops::cpu
