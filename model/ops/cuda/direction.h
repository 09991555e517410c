#pragma once
#include "model/ops/direction.h"

namespace trireme::ops::cuda {

void adam_direction(Stream&, const AdamDirectionState& state, const AdamDirection& how);
void momentum_direction(Stream&, Tensor momentum, Tensor grad, Tensor grad_scale, double beta,
                        bool nesterov);
void follow(Stream&, const FollowState& state, double rate, double decay);
void blend(Stream&, Tensor y, Tensor x, const Blend& how);

}  // namespace trireme::ops::cuda
