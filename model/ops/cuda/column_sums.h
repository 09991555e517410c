#pragma once
#include "model/device/stream.h"
#include "model/ops/into.h"
#include "model/tensor/tensor.h"

namespace trireme::ops::cuda {

// out [columns] = or += the sums down columns [first, first + columns) of x [rows,
// width]; out has x's accumulator dtype. The order of the additions depends on the
// number of rows alone, and on whether x is aligned for vectors.
void column_sums(Stream&, Tensor out, Tensor x, Into into, std::int64_t first = 0);

}  // namespace trireme::ops::cuda
