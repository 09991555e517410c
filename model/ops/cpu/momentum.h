#pragma once
#include "model/ops/momentum.h"

namespace trireme::ops::cpu {

void sgd_step(Stream&, const UpdateTensors& tensors, Tensor grad_scale, const Momentum& how);
void lion(Stream&, const UpdateTensors& tensors, Tensor grad_scale, const Lion& how);

}  // namespace trireme::ops::cpu
