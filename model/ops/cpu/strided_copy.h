#pragma once
#include "model/ops/strided_copy.h"

namespace trireme::ops::cpu {

void scatter_strided(Stream&, Tensor whole, Tensor part, const Strided& where);
void gather_strided(Stream&, Tensor part, Tensor whole, const Strided& where);
void round_stochastically(Stream&, Tensor to, Tensor from, Tensor unless_nan,
                          const StochasticRounding& how);

}  // namespace trireme::ops::cpu
