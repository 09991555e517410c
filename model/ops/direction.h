#pragma once
#include "model/device/stream.h"
#include "model/tensor/tensor.h"

// Updates in two halves, for rules that look at a whole parameter in between: gradients become
// a direction, in their own place, and the weights then follow it. All tensors are flat and of
// the accumulator dtype but `value`. Nothing changes when grad_scale [1] is NaN.
namespace trireme::ops {

// LAMB's direction (You et al. 2020, algorithm 2) before its layer-wise ratio:
//   g = grad * grad_scale;  m, v the moments;  grad = m^ / (sqrt(v^) + eps) + decay weight
struct AdamDirection {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-6, weight_decay = 0;
  std::int64_t step = 1;  // 1 for the first update; bias correction counts from it
};
struct AdamDirectionState {
  Tensor weight, m, v, grad, grad_scale;
};
void adam_direction(Stream&, const AdamDirectionState& state, const AdamDirection& how);

// Muon's direction (Jordan et al. 2024) before it is made orthogonal:
//   g = grad * grad_scale;  m += (1 - beta) (g - m);  grad = nesterov ? g + beta (m - g) : m
void momentum_direction(Stream&, Tensor momentum, Tensor grad, Tensor grad_scale, double beta,
                        bool nesterov);

// weight -= decay * weight + rate * ratio * direction; `master` may be empty: then value is the
// master, else value = master in the compute dtype. `ratio` [1] may be empty: 1.
struct FollowState {
  Tensor value, master, direction, ratio, grad_scale;
};
void follow(Stream&, const FollowState& state, double rate, double decay);

// y = alpha * factor * x + beta * y; y may be x, and is not read when beta is 0. `factor` [1] may
// be empty: 1.
struct Blend {
  double alpha = 1, beta = 0;
  Tensor factor = {};
};
void blend(Stream&, Tensor y, Tensor x, const Blend& how);

}  // namespace trireme::ops
