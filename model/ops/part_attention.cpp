#include "model/ops/part_attention.h"

#include "model/ops/attention_checks.h"
#include "model/ops/cpu/attention.h"
#include "model/ops/cuda/attention_choice.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void part_attention(Stream&, Tensor workspace, Tensor out, Tensor lse,
                                       const PartAttention&, const AttentionShape&));
TRIREME_ON_DEVICES(void part_attention_backward(Stream&, Tensor workspace,
                                                const PartAttentionBackward&, const PartAttention&,
                                                const AttentionShape&));
TRIREME_ON_DEVICES(void merge_attention(Stream&, Tensor sum, Tensor sum_lse, Tensor out, Tensor lse,
                                        const Heads&));

namespace {

void check_part(const char* op, const PartAttention& part, Tensor out, Tensor lse,
                const AttentionShape& shape) {
  check_attention(op, part.qkv, out, lse, part.first_seen, std::max(shape.seq, part.keys), shape);
  require(shape.seq > 0 && part.keys > 0, op, ": ", shape.seq, " queries and ", part.keys, " keys");
  const std::int64_t keys = shape.batch * part.keys;
  require_count(op, part.kv, keys * 2 * shape.heads.kv_heads * shape.heads.width, part.qkv.dtype);
  if (part.rows) require_count(op, part.rows, shape.batch * shape.seq, DType::kI32);
  if (!part.key_rows) return;
  require_count(op, part.key_rows, keys, DType::kI32);
  require(!shape.dropout, op, ": dropout over keys that are not a whole sequence");
}

void record_part(const Stream& stream, const PartAttention& part, const AttentionShape& shape,
                 double products, double recomputed, std::size_t bytes) {
  if (stream.executes()) return;
  const std::int64_t columns = shape.window > 0 ? std::min(shape.window, part.keys) : part.keys;
  const auto seq = static_cast<double>(shape.seq);
  // The causal mask leaves half of what ranks share evenly; of a ring's parts all but a few see
  // less of a window than this.
  const double causal = seq * static_cast<double>(part.keys) / 2;
  record_products(stream,
                  {.name = stream.on_cuda() ? kOwnAttention : "attention",
                   .pairs = std::min(causal, seq * static_cast<double>(columns)),
                   .columns = columns,
                   .products = products,
                   .recomputed = recomputed,
                   .bytes = bytes},
                  shape, part.qkv.dtype);
}

Shape workspace_of_part(const Stream& stream, std::int64_t keys, const AttentionShape& shape,
                        DType dtype) {
  if (stream.on_cuda()) return {cuda::part_workspace(shape)};
  return cpu::part_attention_workspace(keys, shape, dtype);
}

Shape backward_workspace_of_part(const Stream& stream, std::int64_t keys,
                                 const AttentionShape& shape, DType dtype) {
  if (stream.on_cuda()) return {cuda::part_backward_workspace(shape)};
  return cpu::part_attention_backward_workspace(keys, shape, dtype);
}

}  // namespace

void part_attention(Stream& stream, Arena& scratch, Tensor out, Tensor lse,
                    const PartAttention& part, const AttentionShape& shape) {
  check_part("part_attention", part, out, lse, shape);
  record_part(stream, part, shape, 2, 0, 2 * out.bytes() + part.kv.bytes());
  if (shape.batch == 0) return;
  const DType dtype = part.qkv.dtype;
  const Arena::Frame frame(scratch);
  const Tensor workspace =
      scratch.take(workspace_of_part(stream, part.keys, shape, dtype), accumulator_of(dtype));
  TRIREME_DISPATCH(stream, part_attention(stream, workspace, out, lse, part, shape));
}

void part_attention_backward(Stream& stream, Arena& scratch, const PartAttentionBackward& how,
                             const PartAttention& part, const AttentionShape& shape) {
  const DType dtype = part.qkv.dtype;
  check_part("part_attention_backward", part, how.out, how.lse, shape);
  require(how.dq || how.dkv, "part_attention_backward: no gradient is wanted");
  if (how.dq) require_count("part_attention_backward: dq", how.dq, how.out.count(), dtype);
  if (how.dkv) require_count("part_attention_backward: dkv", how.dkv, part.kv.count(), dtype);
  require_count("part_attention_backward: dout", how.dout, how.out.count(), dtype);
  // Scores and the gradient of probabilities, and one product for queries, two for keys and values.
  // Of the scores, and of what a second call computes again, none is useful.
  record_part(stream, part, shape, (how.dkv ? 3 : 0) + (how.dq ? 1 : 0), how.dkv ? 1 : 2,
              4 * how.out.bytes() + 2 * part.kv.bytes());
  if (shape.batch == 0) return;
  const Arena::Frame frame(scratch);
  const Tensor workspace = scratch.take(backward_workspace_of_part(stream, part.keys, shape, dtype),
                                        accumulator_of(dtype));
  TRIREME_DISPATCH(stream, part_attention_backward(stream, workspace, how, part, shape));
}

void merge_attention(Stream& stream, Tensor sum, Tensor sum_lse, Tensor out, Tensor lse,
                     const Heads& heads) {
  const DType sums = accumulator_of(out.dtype);
  const std::int64_t tokens = out.rows();
  require_count("merge_attention: out", out, tokens * heads.query(), out.dtype);
  require_count("merge_attention: lse", lse, tokens * heads.heads, sums);
  require_count("merge_attention: sum", sum, tokens * heads.query(), sums);
  require_count("merge_attention: sum_lse", sum_lse, tokens * heads.heads, sums);
  if (tokens == 0) return;
  record_memory(stream, "merge_attention", {sum, sum, out, sum_lse, sum_lse, lse});
  TRIREME_DISPATCH(stream, merge_attention(stream, sum, sum_lse, out, lse, heads));
}

}  // namespace trireme::ops
