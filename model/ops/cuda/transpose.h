#pragma once
#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme::ops::cuda {

// to [batch, columns, rows] = from [batch, rows, columns], float32.
void transpose(Stream&, Tensor to, Tensor from);

}  // namespace trireme::ops::cuda
