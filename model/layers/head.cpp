#include "model/layers/head.h"

#include <algorithm>

#include "model/ops/cross_entropy.h"

namespace trireme {

Head::Head(ParamStore& params, NormKind kind, std::int64_t hidden, double epsilon, Weight& weight,
           std::int64_t vocab, Region& region)
    : region_(region),
      first_(vocab / region.slice().count * region.slice().index),
      norm_(params, "norm", kind, hidden, epsilon, region),
      weight_(weight) {}

std::int64_t Head::chunk_rows(std::int64_t tokens, std::int64_t vocab) {
  constexpr std::int64_t kLogits = std::int64_t{1} << 25;
  constexpr std::int64_t kTile = 128;
  return std::min(tokens, std::max(kLogits / vocab / kTile, std::int64_t{1}) * kTile);
}

Tensor Head::forward(Run& run, Tensor x, const Targets& targets, Saved& saved) const {
  const Tensor loss = run.keep.take({x.rows()}, accumulator_of(x.dtype));
  const Arena::Frame frame(run.scratch);
  const Tensor h = region_.enter(run, norm_.forward(run, run.scratch, x, saved.norm));
  if (targets.with_gradient) saved.dh = run.keep.take(h.shape, h.dtype);
  const std::int64_t step = chunk_rows(h.rows(), weight_.value.shape[0]);
  for (std::int64_t first = 0; first < h.rows(); first += step) {
    const std::int64_t rows = std::min(step, h.rows() - first);
    chunk(run, loss.slice(first, rows), h.row_slice(first, rows),
          targets.with_gradient ? saved.dh.row_slice(first, rows) : Tensor{},
          {targets.ids.slice(first, rows), targets.scale, targets.with_gradient});
  }
  return loss;
}

void Head::chunk(Run& run, Tensor loss, Tensor h, Tensor dh, const Targets& targets) const {
  const Arena::Frame frame(run.scratch);
  const Tensor logits = run.scratch.take({h.rows(), weight_.value.shape[0]}, h.dtype);
  const Tensor top = run.scratch.take(loss.shape, loss.dtype);
  const Tensor total = run.scratch.take(loss.shape, loss.dtype);
  const Tensor target = run.scratch.take(loss.shape, loss.dtype);
  ops::gemm(run.stream, logits, h, weight_.value, {.transpose_b = true});
  ops::row_max(run.stream, top, logits);
  region_.max(run, top);
  ops::row_exp_sum(run.stream, total, target, logits, top, targets.ids, first_);
  region_.sum(run, total);
  region_.sum(run, target);
  ops::cross_entropy(run.stream, loss, total, target, targets.ids);
  if (!targets.with_gradient) return;
  ops::cross_entropy_backward(run.stream, logits, top, total, targets.ids, first_, targets.scale);
  ops::gemm(run.stream, dh, logits, weight_.value, {});
  ops::gemm(run.stream, weight_.grad, logits, h,
            {.transpose_a = true, .into = Linear::gradient_into(weight_)});
}

void Head::backward(Run& run, Tensor dx, const Saved& saved) const {
  norm_.backward(run, dx, region_.enter_backward(run, saved.dh), {}, saved.norm);
}

void Head::logits(Run& run, Tensor logits, Tensor x) const {
  Norm::Saved unused;
  Run inner{run.stream, run.scratch, run.scratch};
  const Tensor h = region_.enter(run, norm_.forward(inner, run.scratch, x, unused));
  ops::gemm(run.stream, logits, h, weight_.value, {.transpose_b = true});
}

}  // namespace trireme
