#include "model/layers/linear.h"

#include "model/ops/gemm_float8.h"

namespace trireme {

// float8 operands must be contiguous along k: rows of a and columns of b are transposed if needed.
void Linear::multiply(Run& run, Tensor c, const Left& a, Tensor b, const ops::Gemm& how) const {
  if (factors_ == Factors::kAsStored) {
    ops::gemm(run.stream, c, a.values, b, how);
    return;
  }
  const Arena::Frame frame(run.scratch);
  const ops::Float8Matrix left =
      ops::quantize(run.stream, run.scratch, a.values, a.format, how.transpose_a);
  const ops::Float8Matrix right =
      ops::quantize(run.stream, run.scratch, b, Float8Format::kE4M3, !how.transpose_b);
  ops::gemm_float8(run.stream, run.scratch, {c, left, right, how.into, how.bias});
}

Tensor entered(Run& run, Region& region, const Linear::Saved& saved) {
  return saved.own ? region.enter(run, run.lasting(), saved.own) : saved.x;
}

}  // namespace trireme
