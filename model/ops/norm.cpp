#include "model/ops/norm.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/float8.h"
#include "model/ops/record.h"
#include "model/ops/row_chunks.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void norm(Stream&, const Norm& op));
TRIREME_ON_DEVICES(void norm_recompute(Stream&, const Norm& op));
// partial_gain and partial_bias [row_chunks(rows), width] are workspace for each chunk's gradients.
TRIREME_ON_DEVICES(void norm_backward(Stream&, Tensor partial_gain, Tensor partial_bias,
                                      const NormBackward& op));

namespace {

// For record_memory.
const char* name_of_forward(NormKind kind) {
  return kind == NormKind::kRmsNorm ? "rms_norm" : "layer_norm";
}
const char* name_of_backward(NormKind kind) {
  return kind == NormKind::kRmsNorm ? "rms_norm_backward" : "layer_norm_backward";
}

// What a forward and its recomputation need.
void check_forward(const Norm& op) {
  const DType dtype = op.x.dtype, statistics = accumulator_of(dtype);
  require_count("norm: y", op.y, op.x.count(), dtype);
  require_count("norm: gain", op.gain, op.x.width(), dtype);
  require_count("norm: inverse", op.inverse, op.x.rows(), statistics);
  if (op.kind == NormKind::kLayerNorm) {
    require_count("norm: mean", op.mean, op.x.rows(), statistics);
    if (op.bias) require_count("norm: bias", op.bias, op.x.width(), dtype);
  }
}

}  // namespace

void norm(Stream& stream, const Norm& op) {
  check_forward(op);
  require(static_cast<bool>(op.sum) == static_cast<bool>(op.residual),
          "norm: residual and sum must be given together");
  if (op.sum) {
    require_count("norm: sum", op.sum, op.x.count(), op.x.dtype);
    require_count("norm: residual", op.residual, op.x.count(), op.x.dtype);
  }
  if (op.magnitudes) require_magnitudes("norm: magnitudes", op.magnitudes, op.y);
  record_memory(stream, name_of_forward(op.kind), {op.y, op.x, op.residual, op.sum});
  TRIREME_DISPATCH(stream, norm(stream, op));
}

void norm_recompute(Stream& stream, const Norm& op) {
  check_forward(op);
  record_memory(stream, name_of_forward(op.kind), {op.y, op.x});
  TRIREME_DISPATCH(stream, norm_recompute(stream, op));
}

void norm_backward(Stream& stream, Arena& scratch, const NormBackward& op) {
  const DType dtype = op.x.dtype, sums = accumulator_of(dtype);
  const bool has_mean = op.kind == NormKind::kLayerNorm, has_bias = has_mean && op.dbias;
  require_count("norm_backward: dx", op.dx, op.x.count(), dtype);
  require_count("norm_backward: dy", op.dy, op.x.count(), dtype);
  require_count("norm_backward: gain", op.gain, op.x.width(), dtype);
  require_count("norm_backward: dgain", op.dgain, op.x.width(), sums);
  require_count("norm_backward: inverse", op.inverse, op.x.rows(), sums);
  if (has_mean) require_count("norm_backward: mean", op.mean, op.x.rows(), sums);
  if (has_bias) require_count("norm_backward: dbias", op.dbias, op.x.width(), sums);
  if (op.dresidual) {
    require_count("norm_backward: dresidual", op.dresidual, op.x.count(), dtype);
  }
  const Arena::Frame frame(scratch);
  const Shape shape{row_chunks(op.x.rows(), stream.device()), op.x.width()};
  const Tensor partial_gain = scratch.take(shape, sums);
  const Tensor partial_bias = has_bias ? scratch.take(shape, sums) : Tensor{};
  record_memory(
      stream, name_of_backward(op.kind),
      {op.dx, op.dy, op.x, op.dresidual, partial_gain, partial_gain, partial_bias, partial_bias});
  TRIREME_DISPATCH(stream, norm_backward(stream, partial_gain, partial_bias, op));
}

}  // namespace trireme::ops
