#include "model/layers/linear.h"

#include <utility>

#include "model/ops/gemm.h"

namespace trireme {
namespace {

constexpr auto kValues = Float8Format::kE4M3, kGradients = Float8Format::kE5M2;

}  // namespace

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

void Linear::take_codes(Arena& arena) {
  if (!is_float8()) return;
  weight_.codes = {.plain = arena.take({out(), in() / 4}, DType::kI32),
                   .transposed = arena.take({in(), out() / 4}, DType::kI32),
                   .inverse_scale = arena.take({1}, DType::kF32)};
}

void Linear::update_codes(ExecContext& ctx) const {
  KeptCodes& kept = weight_.codes;
  if (!kept || !kept.stale) return;
  ops::quantize_both(ctx.stream, ctx.scratch, {kValues, kept.plain, kept.inverse_scale},
                     {kValues, kept.transposed, kept.inverse_scale}, weight_.value);
  kept.stale = false;
}

ops::Float8Matrix Linear::codes(ExecContext& ctx, bool transpose) const {
  const KeptCodes& kept = weight_.codes;
  if (!kept) return ops::quantize(ctx.stream, ctx.scratch, weight_.value, kValues, transpose);
  require(!kept.stale, "float8 codes of a weight are used before they are made");
  return {kValues, transpose ? kept.transposed : kept.plain, kept.inverse_scale};
}

Tensor Linear::forward(ExecContext& ctx, Arena& into, const MeasuredTensor& x, Saved& saved,
                       Slice part) const {
  const Tensor y = into.take({x.values.rows(), out()}, x.values.dtype);
  forward(ctx, y, x, saved, part);
  return y;
}

void Linear::forward(ExecContext& ctx, Tensor y, const MeasuredTensor& x, Saved& saved,
                     Slice part) const {
  multiply(ctx, y, x, bias_ && part.index == 0 ? bias_->value : Tensor{}, {}, saved);
}

void Linear::forward_add(ExecContext& ctx, const Residual& residual, const MeasuredTensor& x,
                         Saved& saved) const {
  multiply(ctx, residual.sum, x, bias_ ? bias_->value : Tensor{}, residual.x, saved);
}

void Linear::multiply(ExecContext& ctx, Tensor y, const MeasuredTensor& x, Tensor bias,
                      Tensor addend, Saved& saved) const {
  saved.x = x.values;
  if (!is_float8()) {
    ops::gemm(ctx.stream, y, x.values, weight_.value,
              {.transpose_b = true, .bias = bias, .addend = addend});
    return;
  }
  saved.inverse_scale = ctx.saved.take({1}, DType::kF32);
  const Arena::Frame frame(ctx.scratch);
  const ops::Float8Matrix left = ops::quantize(ctx.stream, ctx.scratch, x.values, kValues, false,
                                               saved.inverse_scale, x.magnitudes);
  const ops::Float8Matrix right = codes(ctx, false);
  ops::gemm_float8(ctx.stream, ctx.scratch,
                   {.c = y, .a = left, .b = right, .bias = bias, .addend = addend});
}

Tensor Linear::backward_input(ExecContext& ctx, Gradient& gradient) const {
  const Tensor dx = ctx.scratch.take({gradient.dy.rows(), in()}, gradient.dy.dtype);
  backward_input(ctx, dx, gradient);
  return dx;
}

// float8 operands must be contiguous along k: here w is transposed, in the weight gradient dy and
// x.
void Linear::backward_input(ExecContext& ctx, Tensor dx, Gradient& gradient) const {
  const Tensor dy = gradient.dy;
  if (!is_float8()) {
    ops::gemm(ctx.stream, dx, dy, weight_.value, {});
    return;
  }
  gradient.transposed = ops::Float8Matrix::take(ctx.lasting(), kGradients, out(), dy.rows());
  const Arena::Frame frame(ctx.scratch);
  const ops::Float8Matrix left =
      ops::quantize_both(ctx.stream, ctx.scratch, gradient.transposed, dy, gradient.magnitudes);
  const ops::Float8Matrix right = codes(ctx, true);
  ops::gemm_float8(ctx.stream, ctx.scratch, {dx, left, right});
}

void Linear::backward_weight(ExecContext& ctx, const Gradient& gradient, const Saved& saved) const {
  if (!ctx.deferred) {
    add_gradients(ctx, gradient, saved);
    return;
  }
  const ops::Float8Matrix& codes = gradient.transposed;
  ctx.deferred->add(
      ctx,
      {is_float8() ? Tensor{} : gradient.dy, bias_ ? gradient.dsum : Tensor{}, codes.codes,
       codes.inverse_scale, saved.x, saved.inverse_scale, saved.magnitudes},
      [this, gradient, saved](ExecContext& later) { add_gradients(later, gradient, saved); });
}

void Linear::add_gradients(ExecContext& ctx, const Gradient& gradient, const Saved& saved) const {
  const ops::Accumulate accumulate = gradient_accumulate(weight_);
  if (is_float8()) {
    const Arena::Frame frame(ctx.scratch);
    const ops::Float8Matrix right =
        saved.inverse_scale
            ? ops::quantize_scaled(ctx.stream, ctx.scratch, saved.x, kValues, true,
                                   saved.inverse_scale)
            : ops::quantize(ctx.stream, ctx.scratch, saved.x, kValues, true, {}, saved.magnitudes);
    ops::gemm_float8(ctx.stream, ctx.scratch,
                     {weight_.grad, gradient.transposed, right, accumulate});
  } else {
    ops::gemm(ctx.stream, weight_.grad, gradient.dy, saved.x,
              {.transpose_a = true, .accumulate = accumulate});
  }
  if (bias_ && gradient.dsum) {
    ops::bias_backward(ctx.stream, bias_->grad, gradient.dsum, gradient_accumulate(*bias_));
  }
}

MeasuredTensor enter(ExecContext& ctx, Region& region, Arena& into, const MeasuredTensor& x) {
  // With sequence parallelism there are other ranks' rows inside.
  return {region.enter(ctx, into, x.values), region.splits_tokens() ? Tensor{} : x.magnitudes};
}

Linear::Saved entered(ExecContext& ctx, Region& region, const Linear::Saved& saved) {
  Linear::Saved whole = saved;
  if (saved.own) whole.x = region.enter(ctx, ctx.lasting(), saved.own);
  return whole;
}

}  // namespace trireme
