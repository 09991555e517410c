#include "model/layers/head.h"

#include <algorithm>

#include "model/device/tuning.h"

namespace trireme {

Head::Head(ParamStore& params, const NormSpec& norm, const ops::LogitForm& form, Weight& weight,
           Region& region)
    : region_(region), form_(form), norm_(params, "norm", norm, region), weight_(weight) {}

std::int64_t Head::chunk_rows(Device device, std::int64_t tokens, std::int64_t vocab) {
  constexpr std::int64_t kTile = 128;
  const std::int64_t tiles =
      std::max<std::int64_t>(tuning_of(device).head_logits / vocab / kTile, 1);
  const std::int64_t chunks = (tokens + tiles * kTile - 1) / (tiles * kTile);
  return std::min(tokens, (tokens + chunks * kTile - 1) / (chunks * kTile) * kTile);
}

Tensor Head::forward(ExecContext& ctx, Tensor x, const Targets& targets, Saved& saved) const {
  const Tensor loss = ctx.saved.take({targets.ids.count()}, accumulator_of(x.dtype));
  const Arena::Frame frame(ctx.scratch);
  const Tensor h =
      region_.enter(ctx, ctx.scratch, norm_.forward(ctx, ctx.scratch, x, saved.norm).values);
  // If tokens are sharded, only this rank's rows are saved.
  Arena& passing = region_.splits_tokens() ? ctx.scratch : ctx.saved;
  const Tensor dh = targets.with_gradient ? passing.take(h.shape, h.dtype) : Tensor{};
  const std::int64_t step = chunk_rows(ctx.stream.device(), h.rows(), weight_.value.shape[0]);
  for (std::int64_t first = 0; first < h.rows(); first += step) {
    const std::int64_t rows = std::min(step, h.rows() - first);
    chunk(ctx, loss.slice(first, rows), h.row_slice(first, rows),
          targets.with_gradient ? dh.row_slice(first, rows) : Tensor{},
          {targets.ids.slice(first, rows), targets.scale, targets.with_gradient,
           targets.with_z_loss});
  }
  if (targets.with_gradient) {
    ExecContext keeping{ctx.stream, ctx.saved, ctx.saved};
    saved.dh = region_.start_enter_backward(keeping, dh);
    region_.finish(keeping);
  }
  return loss;
}

void Head::chunk(ExecContext& ctx, Tensor loss, Tensor h, Tensor dh, const Targets& targets) const {
  const Arena::Frame frame(ctx.scratch);
  const Tensor logits = ctx.scratch.take({h.rows(), weight_.value.shape[0]}, h.dtype);
  const Tensor top = ctx.scratch.take(loss.shape, loss.dtype);
  // Contiguous, so that one all-reduce sums both.
  const Tensor sums = ctx.scratch.take({2, loss.count()}, loss.dtype);
  const Tensor total = sums.slice(0, loss.count());
  const Tensor target = sums.slice(loss.count(), loss.count());
  const std::int64_t first = held().from[0];
  ops::gemm(ctx.stream, logits, h, weight_.value, {.transpose_b = true});
  ops::transform_logits(ctx.stream, logits, form_);
  ops::mask_padding(ctx.stream, logits, held().extent[0]);
  if (region_.slice().count == 1) {
    ops::row_max_exp_sum(ctx.stream, top, total, target, logits, targets.ids);
  } else {
    ops::row_max(ctx.stream, top, logits);
    region_.max(ctx, top);
    ops::row_exp_sum(ctx.stream, total, target, logits, top, targets.ids, first);
    region_.sum(ctx, sums);
  }
  ops::LogitForm form = form_;
  if (!targets.with_z_loss) form.z_loss = 0;
  ops::cross_entropy(ctx.stream, loss, top, total, target, targets.ids, form);
  if (!targets.with_gradient) return;
  ops::cross_entropy_backward(ctx.stream, logits, top, total, targets.ids, first, targets.scale,
                              form);
  ops::gemm(ctx.stream, dh, logits, weight_.value, {});
  ops::gemm(ctx.stream, weight_.grad, logits, h,
            {.transpose_a = true, .accumulate = Linear::gradient_accumulate(weight_)});
}

void Head::backward(ExecContext& ctx, Tensor dx, const Saved& saved) const {
  norm_.backward(ctx, dx, saved.dh, {}, saved.norm);
}

void Head::logits(ExecContext& ctx, Tensor logits, Tensor x) const {
  require(region_.slice().count == 1, "generation requires an unsharded vocabulary");
  Norm::Saved unused;
  ExecContext inner{ctx.stream, ctx.scratch, ctx.scratch};
  const Tensor h = norm_.forward(inner, ctx.scratch, x, unused).values;
  const Tensor rows = weight_.value.row_slice(0, logits.width());  // without padding
  ops::gemm(ctx.stream, logits, h, rows, {.transpose_b = true});
  ops::transform_logits(ctx.stream, logits, form_);
}

}  // namespace trireme
