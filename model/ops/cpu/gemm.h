#pragma once
#include "model/ops/gemm.h"

namespace trireme::ops::cpu {

// Through the process's GemmEngine; see gemm_engine.h.
void gemm(Stream&, Tensor c, Tensor a, Tensor b, const Gemm& how);

// wide_a [m, k] and wide_b [n, k] bfloat16 are workspace for the dequantized operands.
void gemm_float8(Stream&, const Float8Gemm& product, Tensor wide_a, Tensor wide_b);

// Nothing to prepare.
inline void prepare_gemm(Stream&, std::size_t) {}
inline void end_gemm_timing(Stream&) {}

}  // namespace trireme::ops::cpu
