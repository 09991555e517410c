#pragma once
#include <cstddef>

#include "model/ops/gemm.h"

namespace trireme::ops::cuda {

// By cuBLASLt; see gemm_engine.h. A bias of bfloat16 factors cannot go into float32.
void gemm(Stream&, Tensor c, Tensor a, Tensor b, const Gemm& how);

// Memory of each device that products use beside their tensors, taken with the first.
constexpr std::size_t kGemmWorkspaceBytes = std::size_t{32} << 20;

}  // namespace trireme::ops::cuda
