#pragma once
#include "model/ops/momentum.h"

namespace trireme::ops::cpu {

void sgd_step(Stream&, const MomentumState& state, const Momentum& how);
void lion(Stream&, const MomentumState& state, const Lion& how);

}  // namespace trireme::ops::cpu
