#pragma once
#include "model/ops/direction.h"

namespace trireme::ops::cuda {

void adam_direction(Stream&, const AdamDirectionState& state, const AdamDirection& how);
void momentum_direction(Stream&, Tensor momentum, Tensor grad, Tensor grad_scale, double beta,
                        bool nesterov);
void apply_direction(Stream&, const DirectionState& state, double rate, double decay);
void axpby(Stream&, Tensor y, Tensor x, const Axpby& how);

}  // namespace trireme::ops::cuda
