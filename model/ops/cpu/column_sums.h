#pragma once
#include "model/ops/into.h"
#include "model/tensor/tensor.h"

namespace trireme::ops::cpu {

// out [columns] = or += the sums down columns [first, first + columns) of x [rows,
// width]; out has x's accumulator dtype. Every column is summed in the same order
// however many threads there are.
void column_sums(Tensor out, Tensor x, Into into, std::int64_t first = 0);

}  // namespace trireme::ops::cpu
