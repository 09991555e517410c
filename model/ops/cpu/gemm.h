#pragma once
#include "model/ops/gemm.h"

namespace trireme::ops::cpu {

// Through the process's GemmEngine; see gemm_engine.h.
void gemm(Stream&, Tensor c, Tensor a, Tensor b, const Gemm& how);

}  // namespace trireme::ops::cpu
