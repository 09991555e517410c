#pragma once
#include "model/device/stream.h"
#include "model/ops/accumulate.h"
#include "model/tensor/arena.h"

namespace trireme::ops {

// Dtypes: activations, gain and bias share the compute dtype; statistics and parameter gradients
// have its accumulator dtype.

// RMSNorm (Zhang and Sennrich 2019), row by row:
//   s = x + residual    (s = x when `sum` and `residual` are empty)
//   y = s / sqrt(mean(s^2) + epsilon) * gain
//   x, residual, sum, y [tokens, width]   gain [width]   inv_rms [tokens]
// `sum` receives s, which the backward needs; it may be x itself.
struct RmsNorm {
  Tensor y, inv_rms, sum;
  Tensor x, residual, gain;
  double epsilon = 1e-5;
};
void rms_norm(Stream&, const RmsNorm&);

// dx = the gradient through the norm, plus `dresidual` if given (the gradient of s through the
// residual path). dgain = or += its gradient. `x` is s above.
struct RmsNormBackward {
  Tensor dx, dgain;
  Tensor dy, x, gain, inv_rms, dresidual;
  Accumulate accumulate = Accumulate::kAdd;
};
void rms_norm_backward(Stream&, Arena& scratch, const RmsNormBackward&);

// LayerNorm (Ba et al. 2016), with the same fused residual:
//   y = (s - mean(s)) / sqrt(var(s) + epsilon) * gain + bias
struct LayerNorm {
  Tensor y, mean, inv_std, sum;
  Tensor x, residual, gain, bias;
  double epsilon = 1e-5;
};
void layer_norm(Stream&, const LayerNorm&);

struct LayerNormBackward {
  Tensor dx, dgain, dbias;
  Tensor dy, x, gain, mean, inv_std, dresidual;
  Accumulate accumulate = Accumulate::kAdd;
};
void layer_norm_backward(Stream&, Arena& scratch, const LayerNormBackward&);

// Recomputes y from the saved statistics.
void rms_norm_recompute(Stream&, Tensor y, Tensor x, Tensor gain, Tensor inv_rms);
void layer_norm_recompute(Stream&, Tensor y, Tensor x, Tensor gain, Tensor bias, Tensor mean,
                          Tensor inv_std);

}  // namespace trireme::ops
