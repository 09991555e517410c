#include "model/ops/attention_sink.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/gemm.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void attention_sink(Stream&, Tensor out, Tensor lse, Tensor sinks,
                                       const Heads& heads));
// partial [tokens, heads]: each token's term.
TRIREME_ON_DEVICES(void attention_sink_backward(Stream&, Tensor partial,
                                                const AttentionSinkBackward&));

namespace {

void check_sinks(const char* op, const Tensor& out, const Tensor& lse, const Tensor& sinks,
                 const Heads& heads) {
  require_count(op, out, out.rows() * heads.query(), out.dtype);
  require_count(op, lse, out.rows() * heads.heads, accumulator_of(out.dtype));
  require_count(op, sinks, heads.heads, out.dtype);
}

}  // namespace

void attention_sink(Stream& stream, Tensor out, Tensor lse, Tensor sinks, const Heads& heads) {
  check_sinks("attention_sink", out, lse, sinks, heads);
  if (out.count() == 0) return;
  record_memory(stream, "attention_sink", {out, out, lse, lse});
  TRIREME_DISPATCH(stream, attention_sink(stream, out, lse, sinks, heads));
}

void attention_sink_backward(Stream& stream, Arena& scratch, const AttentionSinkBackward& how) {
  check_sinks("attention_sink_backward", how.out, how.lse, how.sinks, how.heads);
  require_count("attention_sink_backward: dout", how.dout, how.out.count(), how.out.dtype);
  require_count("attention_sink_backward: dsinks", how.dsinks, how.heads.heads, how.lse.dtype);
  const Arena::Frame frame(scratch);
  const Tensor partial = scratch.take({how.out.rows(), how.heads.heads}, how.lse.dtype);
  record_memory(stream, "attention_sink_backward", {how.dout, how.out, how.lse, partial});
  if (how.out.count() > 0) {
    TRIREME_DISPATCH(stream, attention_sink_backward(stream, partial, how));
  }
  bias_backward(stream, how.dsinks, partial, how.accumulate);
}

}  // namespace trireme::ops
