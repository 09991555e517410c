#pragma once
#include "model/device/stream.h"
#include "model/ops/accumulate.h"
#include "model/tensor/tensor.h"

namespace trireme::ops::cuda {

// out [columns] = or += the sums of columns [first, first + columns) of x [rows, width]; out has
// x's accumulator dtype. The order of additions depends only on the number of rows and on whether x
// is aligned for vector loads.
void column_sums(Stream&, Tensor out, Tensor x, Accumulate accumulate, std::int64_t first = 0);

}  // namespace trireme::ops::cuda
