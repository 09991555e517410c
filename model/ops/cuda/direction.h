#pragma once
#include "model/ops/direction.h"

namespace trireme::ops::cuda {

void adam_direction(Stream&, const UpdateTensors& tensors, Tensor grad_scale,
                    const AdamDirection& how);
void momentum_direction(Stream&, const UpdateTensors& tensors, Tensor grad_scale, double beta,
                        bool nesterov);
void apply_direction(Stream&, const UpdateTensors& tensors, Tensor grad_scale,
                     const DirectionStep& how);
void axpby(Stream&, Tensor y, Tensor x, const Axpby& how);

}  // namespace trireme::ops::cuda
