#pragma once
#include "model/ops/norm_ratio.h"

namespace trireme::ops::cpu {

void trust_ratio(Stream&, Tensor ratio, Tensor weight_squares, Tensor direction_squares,
                 Tensor grad_scale, const TrustRatio& how);
void inverse_norm(Stream&, Tensor inverse, Tensor squares, double epsilon);

}  // namespace trireme::ops::cpu
