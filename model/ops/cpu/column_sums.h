#pragma once
#include "model/ops/accumulate.h"
#include "model/tensor/tensor.h"

namespace trireme::ops::cpu {

// out [columns] = or += the sums of columns [first, first + columns) of x [rows, width]; out has
// x's accumulator dtype. The order of additions does not depend on the number of threads.
void column_sums(Tensor out, Tensor x, Accumulate accumulate, std::int64_t first = 0);

}  // namespace trireme::ops::cpu
