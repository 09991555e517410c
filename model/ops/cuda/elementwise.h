#pragma once
#include "model/ops/elementwise.h"

namespace trireme::ops::cuda {

void add(Stream&, Tensor y, Tensor a, Tensor b);
void copy(Stream&, Tensor to, Tensor from);
void zero(Stream&, Tensor y);
void cast(Stream&, Tensor to, Tensor from);
void sum(Stream&, Tensor total, Tensor x);

}  // namespace trireme::ops::cuda
