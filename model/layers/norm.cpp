#include "model/layers/norm.h"

#include "model/layers/linear.h"
#include "model/ops/float8.h"
#include "model/ops/norm.h"

namespace trireme {

Norm::Norm(ParamStore& params, const std::string& name, const NormSpec& spec, const Region& region)
    : spec_(spec),
      gain_(params.declare({.name = name + ".weight",
                            .shape = {spec.width},
                            .cut = whole(region.slice()),
                            .init = spec.gain_offset == 0 ? Init::kOnes : Init::kZeros,
                            .partial = region.splits_tokens()})) {
  if (spec.kind == NormKind::kLayerNorm) {
    bias_ = &params.declare({.name = name + ".bias",
                             .shape = {spec.width},
                             .cut = whole(region.slice()),
                             .init = Init::kZeros,
                             .partial = region.splits_tokens()});
  }
}

MeasuredTensor Norm::forward(ExecContext& ctx, Arena& into, Tensor x, Saved& saved,
                             bool measures) const {
  return normalize(ctx, into, {}, x, {}, saved, measures);
}
MeasuredTensor Norm::forward_add(ExecContext& ctx, Arena& into, Tensor x, Tensor residual,
                                 Saved& saved, bool measures) const {
  return normalize(ctx, into, ctx.saved.take(x.shape, x.dtype), x, residual, saved, measures);
}

MeasuredTensor Norm::normalize(ExecContext& ctx, Arena& into, Tensor sum, Tensor x, Tensor residual,
                               Saved& saved, bool measures) const {
  const DType statistics = accumulator_of(x.dtype);
  saved.x = sum ? sum : x;
  saved.inverse = ctx.saved.take({x.rows()}, statistics);
  if (spec_.kind == NormKind::kLayerNorm) saved.mean = ctx.saved.take({x.rows()}, statistics);
  const Tensor y = into.take(x.shape, x.dtype);
  const Tensor magnitudes = measures ? ctx.scratch.take({ops::kMagnitudes}, DType::kI32) : Tensor{};
  ops::norm(ctx.stream, {.kind = spec_.kind,
                         .y = y,
                         .mean = saved.mean,
                         .inverse = saved.inverse,
                         .sum = sum,
                         .x = x,
                         .residual = residual,
                         .gain = gain_.value,
                         .bias = bias_ ? bias_->value : Tensor{},
                         .epsilon = spec_.epsilon,
                         .gain_offset = spec_.gain_offset,
                         .magnitudes = magnitudes});
  return {y, magnitudes};
}

Tensor Norm::again(ExecContext& ctx, const Saved& saved) const {
  const Tensor y = ctx.lasting().take(saved.x.shape, saved.x.dtype);
  ops::norm_recompute(ctx.stream, {.kind = spec_.kind,
                                   .y = y,
                                   .mean = saved.mean,
                                   .inverse = saved.inverse,
                                   .x = saved.x,
                                   .gain = gain_.value,
                                   .bias = bias_ ? bias_->value : Tensor{},
                                   .gain_offset = spec_.gain_offset});
  return y;
}

void Norm::backward(ExecContext& ctx, Tensor dx, Tensor dy, Tensor dresidual,
                    const Saved& saved) const {
  const ops::Accumulate accumulate = Linear::gradient_accumulate(gain_);
  require(!bias_ || Linear::gradient_accumulate(*bias_) == accumulate,
          "a norm's gain and bias are used together");
  ops::norm_backward(ctx.stream, ctx.scratch,
                     {.kind = spec_.kind,
                      .dx = dx,
                      .dgain = gain_.grad,
                      .dbias = bias_ ? bias_->grad : Tensor{},
                      .dy = dy,
                      .x = saved.x,
                      .gain = gain_.value,
                      .mean = saved.mean,
                      .inverse = saved.inverse,
                      .dresidual = dresidual,
                      .accumulate = accumulate,
                      .gain_offset = spec_.gain_offset});
}

}  // namespace trireme
