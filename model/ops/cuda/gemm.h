#pragma once
#include <cstddef>

#include "model/ops/gemm.h"

namespace trireme::ops::cuda {

// By cuBLASLt; see gemm_engine.h. A bias with bfloat16 operands and a float32 result is not
// supported.
void gemm(Stream&, Tensor c, Tensor a, Tensor b, const Gemm& how);

// Workspace of matrix products per device, allocated by the first one.
constexpr std::size_t kGemmWorkspaceBytes = std::size_t{32} << 20;

// See ops::prepare_gemm.
void prepare_gemm(Stream&, std::size_t most_added);
void end_gemm_timing(Stream&);

// By cuBLASLt, without fast accumulation; see gemm_engine.h. The last two arguments are used by the
// CPU only.
void gemm_float8(Stream&, const Float8Gemm& product, Tensor wide_a, Tensor wide_b);

}  // namespace trireme::ops::cuda
