#pragma once
#include "model/ops/gemm_float8.h"

namespace trireme::ops::cpu {

// wide_a [m, k] and wide_b [n, k] bfloat16 are workspace for the dequantized operands.
void gemm_float8(Stream&, const Float8Gemm& product, Tensor wide_a, Tensor wide_b);

}  // namespace trireme::ops::cpu
