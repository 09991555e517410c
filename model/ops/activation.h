#pragma once
#include "model/device/stream.h"
#include "model/ops/activation_kind.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// y = act(x). dx may be dy.
void activate(Stream&, Tensor y, Tensor x, Activation);
void activate_backward(Stream&, Tensor dx, Tensor dy, Tensor x, Activation);

// A gated linear unit (Shazeer 2020; SwiGLU with kSilu, GeGLU with GELU): y = act(gate) * up, with
// x [tokens, 2 width]: gate, then up, in every row.
//   y, dy [tokens, width]   dx [tokens, 2 width]
void gate(Stream&, Tensor y, Tensor x, Activation);
void gate_backward(Stream&, Tensor dx, Tensor dy, Tensor x, Activation);

}  // namespace trireme::ops
