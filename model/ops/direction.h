#pragma once
#include "model/device/stream.h"
#include "model/tensor/tensor.h"

// Optimizer updates in two halves, for optimizers that need norms of a whole parameter in between:
// the gradient is replaced by a direction, which is then applied to the weights. All tensors are
// flat and, except `value`, of the accumulator dtype. If grad_scale [1] is NaN nothing changes.
namespace trireme::ops {

// LAMB's direction (You et al. 2020, algorithm 2), without its layer-wise ratio:
//   g = grad * grad_scale;  m, v the moments;  grad = m^ / (sqrt(v^) + eps) + decay weight
struct AdamDirection {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0;
  std::int64_t step = 1;  // from 1; used by bias correction
};
struct AdamDirectionState {
  Tensor weight, m, v, grad, grad_scale;
};
void adam_direction(Stream&, const AdamDirectionState& state, const AdamDirection& how);

// Muon's direction (Jordan et al. 2024), before orthogonalization:
//   g = grad * grad_scale;  m += (1 - beta) (g - m);  grad = nesterov ? g + beta (m - g) : m
void momentum_direction(Stream&, Tensor momentum, Tensor grad, Tensor grad_scale, double beta,
                        bool nesterov);

// weight -= decay * weight + rate * ratio * direction. If `master` is empty, value is the master,
// otherwise value = master in the compute dtype. `ratio` [1]; empty: 1.
struct DirectionState {
  Tensor value, master, direction, ratio, grad_scale;
};
void apply_direction(Stream&, const DirectionState& state, double rate, double decay);

// y = alpha * factor * x + beta * y; y may be x, and is not read if beta is 0. `factor` [1]; empty:
// 1.
struct Axpby {
  double alpha = 1, beta = 0;
  Tensor factor = {};
};
void axpby(Stream&, Tensor y, Tensor x, const Axpby& how);

}  // namespace trireme::ops
