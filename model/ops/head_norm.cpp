#include "model/ops/head_norm.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"
#include "model/ops/row_chunks.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void head_norm(Stream&, const HeadNorm& op));
// `partial` [row_chunks(tokens), 2 width] is workspace for each chunk's gradients of the query
// gain, then of the key gain.
TRIREME_ON_DEVICES(void head_norm_backward(Stream&, Tensor partial, const HeadNormBackward& op));

namespace {

// Checks common to forward and backward.
template <class Op>
void check_head_norm(const Op& op) {
  const Heads& heads = op.heads;
  const DType dtype = op.x.dtype;
  const std::int64_t tokens = op.x.rows();
  require_count("head_norm: x", op.x, tokens * heads.qkv(), dtype);
  require_count("head_norm: query_gain", op.query_gain, heads.width, dtype);
  require_count("head_norm: key_gain", op.key_gain, heads.width, dtype);
  require_count("head_norm: inv_rms", op.inv_rms, tokens * (heads.heads + heads.kv_heads),
                accumulator_of(dtype));
}

}  // namespace

void head_norm(Stream& stream, const HeadNorm& op) {
  check_head_norm(op);
  require_count("head_norm: y", op.y, op.x.count(), op.x.dtype);
  if (op.y.data == op.x.data) {
    const Tensor touched = queries_and_keys(op.x, op.heads);
    record_memory(stream, "head_norm", {touched, touched});
  } else {
    record_memory(stream, "head_norm", {op.y, op.x});
  }
  TRIREME_DISPATCH(stream, head_norm(stream, op));
}

void head_norm_backward(Stream& stream, Arena& scratch, const HeadNormBackward& op) {
  const DType sums = accumulator_of(op.x.dtype);
  check_head_norm(op);
  require_count("head_norm_backward: dqkv", op.dqkv, op.x.count(), op.x.dtype);
  require_count("head_norm_backward: dquery_gain", op.dquery_gain, op.heads.width, sums);
  require_count("head_norm_backward: dkey_gain", op.dkey_gain, op.heads.width, sums);
  const Arena::Frame frame(scratch);
  const Tensor partial =
      scratch.take({row_chunks(op.x.rows(), stream.device()), 2 * op.heads.width}, sums);
  const Tensor touched = queries_and_keys(op.x, op.heads);
  record_memory(stream, "head_norm_backward", {touched, touched, touched});
  TRIREME_DISPATCH(stream, head_norm_backward(stream, partial, op));
}

}  // namespace trireme::ops
