#include "model/layers/linear.h"

#include <utility>

#include "model/ops/gemm.h"

namespace trireme {

void DeferredGradients::add(const ExecContext& ctx, std::initializer_list<Tensor> inputs,
                            Compute compute) {
  for (const Tensor& tensor : inputs) {
    // Addresses in arenas of a planning stream are meaningless.
    require(!ctx.stream.executes() || !ctx.scratch.holds(tensor),
            "an input of a deferred gradient is in scratch, which does not outlive the call");
  }
  deferred_.push_back(std::move(compute));
}

void DeferredGradients::compute(ExecContext& ctx) {
  for (const Compute& compute : deferred_) compute(ctx);
}

// float8 operands must be contiguous along k: rows of a and columns of b are transposed if needed.
void Linear::multiply(ExecContext& ctx, Tensor c, const Left& a, Tensor b,
                      const ops::Gemm& how) const {
  if (precision_ == MatmulPrecision::kNative) {
    ops::gemm(ctx.stream, c, a.values, b, how);
    return;
  }
  const Arena::Frame frame(ctx.scratch);
  const ops::Float8Matrix left =
      ops::quantize(ctx.stream, ctx.scratch, a.values, a.format, how.transpose_a);
  const ops::Float8Matrix right =
      ops::quantize(ctx.stream, ctx.scratch, b, Float8Format::kE4M3, !how.transpose_b);
  ops::gemm_float8(ctx.stream, ctx.scratch, {c, left, right, how.accumulate, how.bias});
}

Tensor entered(ExecContext& ctx, Region& region, const Linear::Saved& saved) {
  return saved.own ? region.enter(ctx, ctx.lasting(), saved.own) : saved.x;
}

}  // namespace trireme
