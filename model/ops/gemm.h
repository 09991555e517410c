#pragma once
#include "model/device/stream.h"
#include "model/ops/accumulate.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

struct Gemm {
  bool transpose_a = false;
  bool transpose_b = false;
  Accumulate accumulate = Accumulate::kReplace;
  Tensor bias = {};  // [n], added to every row of c; only with kReplace
};

// c = a b, or c += a b, with a [m, k] and b [k, n] after optional transposition and c [m, n]. a and
// b have one dtype; c has the same, or is the float32 accumulator of bfloat16 operands (weight
// gradients).
void gemm(Stream&, Tensor c, Tensor a, Tensor b, const Gemm& how);

// dbias [n] = or += the column sums of dy [rows, n], in dy's accumulator dtype.
void bias_backward(Stream&, Tensor dbias, Tensor dy, Accumulate accumulate);

// Workspace of matrix products on `device`, in addition to their tensors.
std::size_t gemm_workspace_bytes(Device device);

}  // namespace trireme::ops
