#pragma once
#include "model/device/stream.h"
#include "model/tensor/update_tensors.h"

namespace trireme::ops {

// Updates by optimizers with one state, the momentum m. It and grad_scale [1] have the accumulator
// dtype; value = master in the compute dtype. If grad_scale is NaN nothing changes.

// SGD with momentum, in one pass:
//   g = into * rate * (grad * grad_scale + weight_decay * w);  m = momentum * m + g
//   w -= learning_rate * (nesterov ? g + momentum * m : m)
// With `into` 1 this is torch.optim.SGD without dampening; with `into` the learning rate, `rate`
// the layer-wise rate and learning_rate 1 it is LARS (You, Gitman, Ginsburg 2017).
struct Momentum {
  double learning_rate = 0, momentum = 0.9, weight_decay = 0, into = 1;
  bool nesterov = false;
  Tensor rate = {};  // [1] in the accumulator dtype, multiplies `into`; empty: 1
};
void sgd_step(Stream&, const UpdateTensors& tensors, Tensor grad_scale, const Momentum& how);

// Lion (Chen et al. 2023), in one pass:
//   g = grad * grad_scale;  w -= learning_rate * (sign(beta1 m + (1 - beta1) g) + weight_decay w)
//   m = beta2 m + (1 - beta2) g
struct Lion {
  double learning_rate = 0, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};
void lion(Stream&, const UpdateTensors& tensors, Tensor grad_scale, const Lion& how);

}  // namespace trireme::ops
