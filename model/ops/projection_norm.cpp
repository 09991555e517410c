#include "model/ops/projection_norm.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"
#include "model/ops/row_chunks.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void projection_squares(Stream&, Tensor squares, Tensor x, const Heads&,
                                           double key_share));
TRIREME_ON_DEVICES(void projection_norm(Stream&, const ProjectionNorm&));
TRIREME_ON_DEVICES(void projection_dots(Stream&, const ProjectionNormBackward&));
// `partial` [row_chunks(tokens), (heads + kv_heads) width] is workspace for each chunk's gradients
// of the gains.
TRIREME_ON_DEVICES(void projection_norm_backward(Stream&, Tensor partial,
                                                 const ProjectionNormBackward&));

namespace {

template <class Op>
void check_projection(const char* name, const Op& op) {
  const DType dtype = op.x.dtype;
  require_count(name, op.x, op.x.rows() * op.heads.qkv(), dtype);
  require_count(name, op.query_gain, op.heads.query(), dtype);
  require_count(name, op.key_gain, op.heads.kv_heads * op.heads.width, dtype);
  require_count(name, op.squares, op.x.rows() * 2, accumulator_of(dtype));
}

void check_backward(const char* name, const ProjectionNormBackward& op) {
  check_projection(name, op);
  require_count(name, op.dqkv, op.x.count(), op.x.dtype);
  require_count(name, op.dots, op.x.rows() * 2, accumulator_of(op.x.dtype));
}

}  // namespace

void projection_squares(Stream& stream, Tensor squares, Tensor x, const Heads& heads,
                        double key_share) {
  require_count("projection_squares: x", x, x.rows() * heads.qkv(), x.dtype);
  require_count("projection_squares", squares, x.rows() * 2, accumulator_of(x.dtype));
  record_memory(stream, "projection_squares", {queries_and_keys(x, heads)});
  TRIREME_DISPATCH(stream, projection_squares(stream, squares, x, heads, key_share));
}

void projection_norm(Stream& stream, const ProjectionNorm& op) {
  check_projection("projection_norm", op);
  require_count("projection_norm: y", op.y, op.x.count(), op.x.dtype);
  const bool in_place = op.y.data == op.x.data;
  const auto touched = [&](Tensor of) { return in_place ? queries_and_keys(of, op.heads) : of; };
  record_memory(stream, "projection_norm", {touched(op.y), touched(op.x)});
  TRIREME_DISPATCH(stream, projection_norm(stream, op));
}

void projection_dots(Stream& stream, const ProjectionNormBackward& op) {
  check_backward("projection_dots", op);
  const Tensor touched = queries_and_keys(op.x, op.heads);
  record_memory(stream, "projection_dots", {touched, touched});
  TRIREME_DISPATCH(stream, projection_dots(stream, op));
}

void projection_norm_backward(Stream& stream, Arena& scratch, const ProjectionNormBackward& op) {
  const DType sums = accumulator_of(op.x.dtype);
  check_backward("projection_norm_backward", op);
  require_count("projection_norm_backward: dquery_gain", op.dquery_gain, op.heads.query(), sums);
  require_count("projection_norm_backward: dkey_gain", op.dkey_gain,
                op.heads.kv_heads * op.heads.width, sums);
  const Arena::Frame frame(scratch);
  const Tensor partial = scratch.take({row_chunks(op.x.rows(), stream.device()),
                                       (op.heads.heads + op.heads.kv_heads) * op.heads.width},
                                      sums);
  const Tensor touched = queries_and_keys(op.x, op.heads);
  record_memory(stream, "projection_norm_backward", {touched, touched, touched, partial, partial});
  TRIREME_DISPATCH(stream, projection_norm_backward(stream, partial, op));
}

}  // namespace trireme::ops
