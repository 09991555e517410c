#pragma once
#include "model/device/stream.h"
#include "model/ops/accumulate.h"
#include "model/ops/norm_kind.h"
#include "model/tensor/arena.h"

namespace trireme::ops {

// RMSNorm (Zhang and Sennrich 2019) or LayerNorm (Ba et al. 2016), row by row:
//   s = x + residual    (s = x when `sum` and `residual` are empty)
//   RMSNorm:    inverse = 1 / sqrt(mean(s^2) + epsilon)   y = s * inverse * g
//   LayerNorm:  inverse = 1 / sqrt(var(s) + epsilon)      y = (s - mean) * inverse * g + bias
//   g = gain_offset + gain; an offset of 1 is Gemma's
//   x, residual, sum, y [tokens, width]   gain, bias [width]   mean, inverse [tokens]
// `sum` receives s, which the backward needs; it may be x itself. An RMSNorm has no mean and no
// bias; a LayerNorm may have no bias. Activations, gain and bias share the compute dtype;
// statistics and parameter gradients have its accumulator dtype. `magnitudes`, if given, receives
// those of y (ops/float8.h).
struct Norm {
  NormKind kind;
  Tensor y = {}, mean = {}, inverse = {}, sum = {};
  Tensor x = {}, residual = {}, gain = {}, bias = {};
  double epsilon = 1e-5;
  double gain_offset = 0;
  Tensor magnitudes = {};
};
void norm(Stream&, const Norm&);

// Recomputes y alone from s, given as `x`, and the saved statistics.
void norm_recompute(Stream&, const Norm&);

// dx = the gradient through the norm, plus `dresidual` if given (the gradient of s through the
// residual path). dgain and dbias, if there is a bias, = or += their gradients. `x` is s above.
struct NormBackward {
  NormKind kind;
  Tensor dx = {}, dgain = {}, dbias = {};
  Tensor dy = {}, x = {}, gain = {}, mean = {}, inverse = {}, dresidual = {};
  Accumulate accumulate = Accumulate::kAdd;
  double gain_offset = 0;
};
void norm_backward(Stream&, Arena& scratch, const NormBackward&);

}  // namespace trireme::ops
