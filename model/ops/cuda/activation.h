#pragma once
#include "model/ops/activation.h"

namespace trireme::ops::cuda {

void gelu(Stream&, Tensor y, Tensor x);
void gelu_backward(Stream&, Tensor dx, Tensor dy, Tensor x);
void swiglu(Stream&, Tensor y, Tensor x);
void swiglu_backward(Stream&, Tensor dx, Tensor dy, Tensor x);

}  // namespace trireme::ops::cuda
