#pragma once
#include "model/ops/placed.h"

namespace trireme::ops::cuda {

void place(Stream&, Tensor whole, Tensor part, const Placed& where);
void pick(Stream&, Tensor part, Tensor whole, const Placed& where);
void round_stochastically(Stream&, Tensor to, Tensor from, Tensor unless_nan,
                          const StochasticRounding& how);

}  // namespace trireme::ops::cuda
