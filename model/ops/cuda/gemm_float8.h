#pragma once
#include "model/ops/gemm_float8.h"

namespace trireme::ops::cuda {

// By cuBLASLt, without fast accumulation; see gemm_engine.h. The last two arguments are used by the
// CPU only.
void gemm_float8(Stream&, const Float8Gemm& product, Tensor wide_a, Tensor wide_b);

}  // namespace trireme::ops::cuda
