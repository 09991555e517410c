#pragma once
#include "model/ops/float8.h"

namespace trireme::ops::cpu {

// `parts` is used by CUDA only.
void quantize(Stream&, const Float8Matrix& to, Tensor from, Tensor parts, bool transpose);

// to [rows, columns] bfloat16, which represents every value exactly.
void dequantize(Stream&, Tensor to, const Float8Matrix& from);

}  // namespace trireme::ops::cpu
