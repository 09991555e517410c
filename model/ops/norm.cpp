#include "model/ops/norm.h"

#include "model/ops/check.h"
#include "model/ops/cpu/norm.h"
#include "model/ops/cuda/norm.h"
#include "model/ops/dispatch.h"
#include "model/ops/row_chunks.h"

namespace trireme::ops {
namespace {

// Common part of both norms' forwards. `statistic` is inv_rms or inv_std.
template <class Op>
void check_forward(const Op& op, const Tensor& statistic) {
  const DType dtype = op.x.dtype;
  require_count("norm: y", op.y, op.x.count(), dtype);
  require_count("norm: gain", op.gain, op.x.width(), dtype);
  require_count("norm: the inverse deviation", statistic, op.x.rows(), accumulator_of(dtype));
  require(static_cast<bool>(op.sum) == static_cast<bool>(op.residual),
          "norm: residual and sum must be given together");
  if (op.sum) {
    require_count("norm: sum", op.sum, op.x.count(), dtype);
    require_count("norm: residual", op.residual, op.x.count(), dtype);
  }
}

template <class Op>
void check_backward(const Op& op, const Tensor& statistic) {
  const DType dtype = op.x.dtype;
  require_count("norm_backward: dx", op.dx, op.x.count(), dtype);
  require_count("norm_backward: dy", op.dy, op.x.count(), dtype);
  require_count("norm_backward: gain", op.gain, op.x.width(), dtype);
  require_count("norm_backward: dgain", op.dgain, op.x.width(), accumulator_of(dtype));
  require_count("norm_backward: the inverse deviation", statistic, op.x.rows(),
                accumulator_of(dtype));
  if (op.dresidual) {
    require_count("norm_backward: dresidual", op.dresidual, op.x.count(), dtype);
  }
}

void check_again(const Tensor& y, const Tensor& x, const Tensor& gain, const Tensor& statistic) {
  require_count("norm_again: y", y, x.count(), x.dtype);
  require_count("norm_again: gain", gain, x.width(), x.dtype);
  require_count("norm_again: the inverse deviation", statistic, x.rows(), accumulator_of(x.dtype));
}

}  // namespace

void rms_norm(Stream& stream, const RmsNorm& op) {
  check_forward(op, op.inv_rms);
  TRIREME_DISPATCH(stream, rms_norm(stream, op));
}

void rms_norm_backward(Stream& stream, Arena& scratch, const RmsNormBackward& op) {
  check_backward(op, op.inv_rms);
  const Arena::Frame frame(scratch);
  const Tensor partial =
      scratch.take({row_chunks(op.x.rows()), op.x.width()}, accumulator_of(op.x.dtype));
  TRIREME_DISPATCH(stream, rms_norm_backward(stream, partial, op));
}

void rms_norm_recompute(Stream& stream, Tensor y, Tensor x, Tensor gain, Tensor inv_rms) {
  check_again(y, x, gain, inv_rms);
  TRIREME_DISPATCH(stream, rms_norm_recompute(stream, y, x, gain, inv_rms));
}

void layer_norm(Stream& stream, const LayerNorm& op) {
  check_forward(op, op.inv_std);
  require_count("layer_norm: mean", op.mean, op.x.rows(), accumulator_of(op.x.dtype));
  require_count("layer_norm: bias", op.bias, op.x.width(), op.x.dtype);
  TRIREME_DISPATCH(stream, layer_norm(stream, op));
}

void layer_norm_backward(Stream& stream, Arena& scratch, const LayerNormBackward& op) {
  const DType sums = accumulator_of(op.x.dtype);
  check_backward(op, op.inv_std);
  require_count("layer_norm_backward: mean", op.mean, op.x.rows(), sums);
  require_count("layer_norm_backward: dbias", op.dbias, op.x.width(), sums);
  const Arena::Frame frame(scratch);
  const Shape shape{row_chunks(op.x.rows()), op.x.width()};
  const Tensor partial_gain = scratch.take(shape, sums);
  const Tensor partial_bias = scratch.take(shape, sums);
  TRIREME_DISPATCH(stream, layer_norm_backward(stream, partial_gain, partial_bias, op));
}

void layer_norm_recompute(Stream& stream, Tensor y, Tensor x, Tensor gain, Tensor bias, Tensor mean,
                          Tensor inv_std) {
  check_again(y, x, gain, inv_std);
  require_count("layer_norm_again: mean", mean, x.rows(), accumulator_of(x.dtype));
  require_count("layer_norm_again: bias", bias, x.width(), x.dtype);
  TRIREME_DISPATCH(stream, layer_norm_recompute(stream, y, x, gain, bias, mean, inv_std));
}

}  // namespace trireme::ops
