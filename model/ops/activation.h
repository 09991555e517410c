#pragma once
#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// y = gelu(x), the tanh approximation of GPT-2 (Hugging Face's gelu_new). dx may be dy.
void gelu(Stream&, Tensor y, Tensor x);
void gelu_backward(Stream&, Tensor dx, Tensor dy, Tensor x);

// y = silu(gate) * up (Shazeer 2020), with x [tokens, 2 width]: gate, then up, in every row.
//   y, dy [tokens, width]   dx [tokens, 2 width]
void swiglu(Stream&, Tensor y, Tensor x);
void swiglu_backward(Stream&, Tensor dx, Tensor dy, Tensor x);

}  // namespace trireme::ops
