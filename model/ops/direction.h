#pragma once
#include "model/device/stream.h"
#include "model/tensor/update_tensors.h"

// Optimizer updates in two halves, for optimizers that need norms of a whole parameter in between:
// the gradient is replaced by a direction, which is then applied to the weights. States, grad_scale
// [1] and ratio [1] have the accumulator dtype. If grad_scale is NaN nothing changes.
namespace trireme::ops {

// LAMB's direction (You et al. 2020, algorithm 2), without its layer-wise ratio:
//   g = grad * grad_scale;  grad = m^ / (sqrt(v^) + eps) + decay master
// The states are the moments m and v.
struct AdamDirection {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0;
  std::int64_t step = 1;  // from 1; used by bias correction
};
void adam_direction(Stream&, const UpdateTensors& tensors, Tensor grad_scale,
                    const AdamDirection& how);

// Muon's direction (Jordan et al. 2024), before orthogonalization; the state is the momentum m:
//   g = grad * grad_scale;  m += (1 - beta) (g - m);  grad = nesterov ? g + beta (m - g) : m
void momentum_direction(Stream&, const UpdateTensors& tensors, Tensor grad_scale, double beta,
                        bool nesterov);

// Applies the direction in grad: master -= decay * master + rate * ratio * grad; value = master in
// the compute dtype.
struct DirectionStep {
  double rate = 0, decay = 0;
  Tensor ratio = {};  // empty: 1
};
void apply_direction(Stream&, const UpdateTensors& tensors, Tensor grad_scale,
                     const DirectionStep& how);

// y = alpha * factor * x + beta * y; y may be x, and is not read if beta is 0. `factor` [1]; empty:
// 1.
struct Axpby {
  double alpha = 1, beta = 0;
  Tensor factor = {};
};
void axpby(Stream&, Tensor y, Tensor x, const Axpby& how);

}  // namespace trireme::ops
