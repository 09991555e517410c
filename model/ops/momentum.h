#pragma once
#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// Tensors of optimizers with one momentum, flat. grad, momentum, master, grad_scale [1] and rate
// [1] share the accumulator dtype. If `master` is empty, value is the master, otherwise value =
// master in the compute dtype. If grad_scale is NaN nothing changes.
struct MomentumState {
  Tensor value, master, momentum, grad, grad_scale;
  Tensor rate = {};  // multiplies Momentum::into; empty: 1
};

// SGD with momentum, in one pass:
//   g = into * rate * (grad * grad_scale + weight_decay * w);  m = momentum * m + g
//   w -= learning_rate * (nesterov ? g + momentum * m : m)
// With `into` 1 this is torch.optim.SGD without dampening; with `into` the learning rate, `rate`
// the layer-wise rate and learning_rate 1 it is LARS (You, Gitman, Ginsburg 2017).
struct Momentum {
  double learning_rate = 0, momentum = 0.9, weight_decay = 0, into = 1;
  bool nesterov = false;
};
void sgd_step(Stream&, const MomentumState& state, const Momentum& how);

// Lion (Chen et al. 2023), in one pass; `rate` is not used:
//   g = grad * grad_scale;  w -= learning_rate * (sign(beta1 m + (1 - beta1) g) + weight_decay w)
//   m = beta2 m + (1 - beta2) g
struct Lion {
  double learning_rate = 0, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};
void lion(Stream&, const MomentumState& state, const Lion& how);

}  // namespace trireme::ops
