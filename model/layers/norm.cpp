#include "model/layers/norm.h"

#include "model/layers/linear.h"
#include "model/ops/norm.h"

namespace trireme {

Norm::Norm(ParamStore& params, const std::string& name, NormKind kind, std::int64_t width,
           double epsilon, const Region& region)
    : kind_(kind),
      epsilon_(epsilon),
      gain_(params.declare({.name = name + ".weight",
                            .shape = {width},
                            .cut = whole(region.slice()),
                            .init = Init::kOnes,
                            .partial = region.splits_tokens()})) {
  if (kind == NormKind::kLayerNorm) {
    bias_ = &params.declare({.name = name + ".bias",
                             .shape = {width},
                             .cut = whole(region.slice()),
                             .init = Init::kZeros,
                             .partial = region.splits_tokens()});
  }
}

Tensor Norm::forward(Run& run, Arena& into, Tensor x, Saved& saved) const {
  return normalise(run, into, {}, x, {}, saved);
}
Tensor Norm::forward_add(Run& run, Arena& into, Tensor x, Tensor residual, Saved& saved) const {
  return normalise(run, into, run.keep.take(x.shape, x.dtype), x, residual, saved);
}

Tensor Norm::normalise(Run& run, Arena& into, Tensor sum, Tensor x, Tensor residual,
                       Saved& saved) const {
  const DType statistics = accumulator_of(x.dtype);
  saved.x = sum ? sum : x;
  saved.inv_scale = run.keep.take({x.rows()}, statistics);
  if (kind_ == NormKind::kLayerNorm) saved.mean = run.keep.take({x.rows()}, statistics);
  const Tensor y = into.take(x.shape, x.dtype);
  if (kind_ == NormKind::kRmsNorm) {
    ops::rms_norm(run.stream, {.y = y,
                               .inv_rms = saved.inv_scale,
                               .sum = sum,
                               .x = x,
                               .residual = residual,
                               .gain = gain_.value,
                               .epsilon = epsilon_});
  } else {
    ops::layer_norm(run.stream, {.y = y,
                                 .mean = saved.mean,
                                 .inv_std = saved.inv_scale,
                                 .sum = sum,
                                 .x = x,
                                 .residual = residual,
                                 .gain = gain_.value,
                                 .bias = bias_->value,
                                 .epsilon = epsilon_});
  }
  return y;
}

Tensor Norm::again(Run& run, const Saved& saved) const {
  const Tensor y = run.lasting().take(saved.x.shape, saved.x.dtype);
  if (kind_ == NormKind::kRmsNorm) {
    ops::rms_norm_again(run.stream, y, saved.x, gain_.value, saved.inv_scale);
  } else {
    ops::layer_norm_again(run.stream, y, saved.x, gain_.value, bias_->value, saved.mean,
                          saved.inv_scale);
  }
  return y;
}

void Norm::backward(Run& run, Tensor dx, Tensor dy, Tensor dresidual, const Saved& saved) const {
  const ops::Into into = Linear::gradient_into(gain_);
  if (kind_ == NormKind::kRmsNorm) {
    ops::rms_norm_backward(run.stream, run.scratch,
                           {.dx = dx,
                            .dgain = gain_.grad,
                            .dy = dy,
                            .x = saved.x,
                            .gain = gain_.value,
                            .inv_rms = saved.inv_scale,
                            .dresidual = dresidual,
                            .into = into});
    return;
  }
  require(Linear::gradient_into(*bias_) == into, "a norm's gain and bias are used together");
  ops::layer_norm_backward(run.stream, run.scratch,
                           {.dx = dx,
                            .dgain = gain_.grad,
                            .dbias = bias_->grad,
                            .dy = dy,
                            .x = saved.x,
                            .gain = gain_.value,
                            .mean = saved.mean,
                            .inv_std = saved.inv_scale,
                            .dresidual = dresidual,
                            .into = into});
}

}  // namespace trireme
