#pragma once
#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

void add(Stream&, Tensor y, Tensor a, Tensor b);         // y = a + b; y may be a or b
void scale(Stream&, Tensor y, Tensor x, double factor);  // y = factor x; y may be x
void copy(Stream&, Tensor to, Tensor from);              // same dtype and count
void zero(Stream&, Tensor y);
void cast(Stream&, Tensor to, Tensor from);  // between floating-point dtypes, to nearest even

// total [1] float64 = the sum of a flat tensor, chunk by chunk in order.
void sum(Stream&, Tensor total, Tensor x);

}  // namespace trireme::ops
