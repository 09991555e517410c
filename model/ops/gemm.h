#pragma once
#include <string>

#include "model/device/devices.h"
#include "model/device/stream.h"
#include "model/ops/accumulate.h"
#include "model/ops/float8.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

struct Gemm {
  bool transpose_a = false;
  bool transpose_b = false;
  Accumulate accumulate = Accumulate::kReplace;
  Tensor bias = {};    // [n], added to every row of c; only with kReplace
  Tensor addend = {};  // [m, n] in c's dtype, not c itself; only with kReplace
};

// c = a b, c = addend + a b, or c += a b, with a [m, k] and b [k, n] after optional transposition
// and c [m, n]. a and b have one dtype; c has the same, or is the float32 accumulator of bfloat16
// operands (weight gradients).
void gemm(Stream&, Tensor c, Tensor a, Tensor b, const Gemm& how);

// dbias [n] = or += the column sums of dy [rows, n], in dy's accumulator dtype.
void bias_backward(Stream&, Tensor dbias, Tensor dy, Accumulate accumulate);

// Workspace of matrix products on `device`, in addition to their tensors.
std::size_t gemm_workspace_bytes(Device device);

// Allocates now what products on `stream` would allocate later, with memory for timing algorithms
// that add to a result of up to `most_added` bytes, and waits for products on other streams. For a
// rank of several, at the start of a step: on a GPU an allocation waits for every kernel that runs,
// also for one that waits for a message. No-op on the CPU and on planning streams.
void prepare_gemm(Stream& stream, std::size_t most_added);
// Frees the memory for timing, once a step has met all shapes: further ones take the library's
// first proposal where a timing needs memory.
void end_gemm_timing(Stream& stream);

// c = a b^T, c = addend + a b^T, or c += a b^T, with a [m, k] and b [n, k], not both E5M2, and c
// [m, n] bfloat16 or float32. The bias, added to every row, requires a replaced c in bfloat16.
struct Float8Gemm {
  Tensor c;
  Float8Matrix a, b;
  Accumulate accumulate = Accumulate::kReplace;
  Tensor bias = {};    // [n] bfloat16, or empty
  Tensor addend = {};  // as of Gemm
};

// Accumulates in float32, except for the terms that the hardware adds at once, which Hopper keeps
// to about 14 bits (DeepSeek-AI 2024, "DeepSeek-V3", 3.3.2). The CPU has no float8 products: it
// multiplies the exact values in bfloat16, with workspace in `scratch`, to study numerics rather
// than for speed.
void gemm_float8(Stream&, Arena& scratch, const Float8Gemm& product);

// Throws EnvironmentError if the device has no float8 products.
void require_float8(Device device);
// Why the device has no float8 products, for display; empty if it has.
std::string why_no_float8(const DeviceProperties& device);

}  // namespace trireme::ops
