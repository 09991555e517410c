#include "model/ops/cross_entropy.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void mask_padding(Stream&, Tensor logits, std::int64_t columns));
TRIREME_ON_DEVICES(void row_max(Stream&, Tensor top, Tensor logits));
TRIREME_ON_DEVICES(void row_exp_sum(Stream&, Tensor total, Tensor target, Tensor logits, Tensor top,
                                    Tensor targets, std::int64_t first));
TRIREME_ON_DEVICES(void row_max_exp_sum(Stream&, Tensor top, Tensor total, Tensor target,
                                        Tensor logits, Tensor targets));
TRIREME_ON_DEVICES(void transform_logits(Stream&, Tensor logits, const LogitForm&));
TRIREME_ON_DEVICES(void cross_entropy(Stream&, Tensor loss, Tensor top, Tensor total, Tensor target,
                                      Tensor targets, const LogitForm&));
TRIREME_ON_DEVICES(void cross_entropy_backward(Stream&, Tensor logits, Tensor top, Tensor total,
                                               Tensor targets, std::int64_t first, Tensor scale,
                                               const LogitForm&));

void transform_logits(Stream& stream, Tensor logits, const LogitForm& form) {
  require(form.scale > 0 && form.soft_cap >= 0, "transform_logits: a scale of ", form.scale,
          " and a cap of ", form.soft_cap);
  if (form.scale == 1 && form.soft_cap == 0) return;
  record_memory(stream, "loss", {logits, logits});
  TRIREME_DISPATCH(stream, transform_logits(stream, logits, form));
}

void mask_padding(Stream& stream, Tensor logits, std::int64_t columns) {
  require(columns >= 0 && columns <= logits.width(), "mask_padding: ", columns, " of ",
          logits.width(), " columns");
  if (columns == logits.width()) return;
  record_memory(stream, "loss", {logits.slice(0, logits.rows() * (logits.width() - columns))});
  TRIREME_DISPATCH(stream, mask_padding(stream, logits, columns));
}

void row_max(Stream& stream, Tensor top, Tensor logits) {
  require_count("row_max: top", top, logits.rows(), accumulator_of(logits.dtype));
  record_memory(stream, "loss", {logits});
  TRIREME_DISPATCH(stream, row_max(stream, top, logits));
}

void row_exp_sum(Stream& stream, Tensor total, Tensor target, Tensor logits, Tensor top,
                 Tensor targets, std::int64_t first) {
  const DType sums = accumulator_of(logits.dtype);
  require_count("row_exp_sum: total", total, logits.rows(), sums);
  require_count("row_exp_sum: target", target, logits.rows(), sums);
  require_count("row_exp_sum: top", top, logits.rows(), sums);
  require_count("row_exp_sum: targets", targets, logits.rows(), DType::kI32);
  record_memory(stream, "loss", {logits});
  TRIREME_DISPATCH(stream, row_exp_sum(stream, total, target, logits, top, targets, first));
}

void row_max_exp_sum(Stream& stream, Tensor top, Tensor total, Tensor target, Tensor logits,
                     Tensor targets) {
  const DType sums = accumulator_of(logits.dtype);
  require_count("row_max_exp_sum: top", top, logits.rows(), sums);
  require_count("row_max_exp_sum: total", total, logits.rows(), sums);
  require_count("row_max_exp_sum: target", target, logits.rows(), sums);
  require_count("row_max_exp_sum: targets", targets, logits.rows(), DType::kI32);
  for (int pass = 0; pass < (stream.on_cuda() ? 1 : 2); ++pass) {
    record_memory(stream, "loss", {logits});
  }
  TRIREME_DISPATCH(stream, row_max_exp_sum(stream, top, total, target, logits, targets));
}

void cross_entropy(Stream& stream, Tensor loss, Tensor top, Tensor total, Tensor target,
                   Tensor targets, const LogitForm& form) {
  require(loss.dtype == accumulator_of(loss.dtype), "cross_entropy: the loss is ",
          name_of(loss.dtype));
  require_count("cross_entropy: top", top, loss.count(), loss.dtype);
  require_count("cross_entropy: total", total, loss.count(), loss.dtype);
  require_count("cross_entropy: target", target, loss.count(), loss.dtype);
  require_count("cross_entropy: targets", targets, loss.count(), DType::kI32);
  record_memory(stream, "loss", {loss, total, target});
  TRIREME_DISPATCH(stream, cross_entropy(stream, loss, top, total, target, targets, form));
}

void cross_entropy_backward(Stream& stream, Tensor logits, Tensor top, Tensor total, Tensor targets,
                            std::int64_t first, Tensor scale, const LogitForm& form) {
  const DType sums = accumulator_of(logits.dtype);
  require_count("cross_entropy_backward: top", top, logits.rows(), sums);
  require_count("cross_entropy_backward: total", total, logits.rows(), sums);
  require_count("cross_entropy_backward: targets", targets, logits.rows(), DType::kI32);
  if (scale) require_count("cross_entropy_backward: scale", scale, 1, DType::kF64);
  record_memory(stream, "loss", {logits, logits});
  TRIREME_DISPATCH(stream,
                   cross_entropy_backward(stream, logits, top, total, targets, first, scale, form));
}

}  // namespace trireme::ops
