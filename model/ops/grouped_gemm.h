#pragma once
#include "model/device/stream.h"
#include "model/ops/accumulate.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// PlannedOp::name of these products.
inline constexpr const char* kGroupedProduct = "grouped_matmul";

// Matrix products of several groups of rows, each with a matrix of its own. starts [groups + 1] I32
// is on the device: group g has rows [starts[g], starts[g + 1]) of a and c; the last end is at most
// rows(). Groups may be empty. a and b have one dtype.

// c [rows, n] = a [rows, k] b_g, with b_g [k, n], or [n, k] if `transpose_b`; b is all groups'
// matrices one after the other. c has the operands' dtype. Of fewer matrices than groups, whose
// number is then a multiple of theirs, group g uses number g modulo them.
void grouped_gemm(Stream&, Tensor c, Tensor a, Tensor b, Tensor starts, bool transpose_b);

// c_g [m, n] = or += a_g^T b_g with a [rows, m] and b [rows, n]; c [groups * m, n] is in the
// accumulator dtype. An empty group's product is zero. Of fewer matrices c than groups, group g
// adds to number g modulo them, in order of the groups.
void grouped_gemm_weight(Stream&, Tensor c, Tensor a, Tensor b, Tensor starts,
                         Accumulate accumulate);

}  // namespace trireme::ops
