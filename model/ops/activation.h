#pragma once
#include "model/device/stream.h"
#include "model/ops/activation_kind.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// y = act(x). dx may be dy. `magnitudes` receives those of y or dx (ops/float8.h), here and below.
void activate(Stream&, Tensor y, Tensor x, Activation, Tensor magnitudes = {});
void activate_backward(Stream&, Tensor dx, Tensor dy, Tensor x, Activation, Tensor magnitudes = {});

// A gated linear unit (Shazeer 2020; SwiGLU with kSilu, GeGLU with GELU): y = act(gate) * up, with
// x [tokens, 2 width]: gate, then up, in every row.
//   y, dy [tokens, width]   dx [tokens, 2 width]
// With limit > 0, for kSilu alone, the unit of gpt-oss (OpenAI 2025, arXiv 2508.10925): y = (u + 1)
// g sigmoid(1.702 g) with g = min(gate, limit) and u = up clamped to [-limit, limit]; it collects
// no magnitudes.
void gate(Stream&, Tensor y, Tensor x, Activation, double limit = 0, Tensor magnitudes = {});
void gate_backward(Stream&, Tensor dx, Tensor dy, Tensor x, Activation, double limit = 0,
                   Tensor magnitudes = {});

}  // namespace trireme::ops
