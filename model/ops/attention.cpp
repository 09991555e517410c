#include "model/ops/attention.h"

#include "model/device/imagined.h"
#include "model/ops/check.h"
#include "model/ops/cpu/attention.h"
#include "model/ops/cuda/attention.h"
#include "model/ops/cuda/attention_choice.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {
namespace {

void check_heads(const char* op, const Heads& heads) {
  require(heads.kv_heads > 0 && heads.heads % heads.kv_heads == 0 && heads.width > 0, op, ": ",
          heads.heads, " query heads for ", heads.kv_heads, " key heads of width ", heads.width);
}

void check_shape(const char* op, Tensor qkv, Tensor out, Tensor lse, Tensor document_start,
                 const AttentionShape& shape) {
  // Tiles store positions in the accumulator dtype.
  constexpr std::int64_t kMostExact = std::int64_t{1} << 24;
  check_heads(op, shape.heads);
  require(shape.seq < kMostExact, op, ": a sequence of ", shape.seq);
  const std::int64_t tokens = shape.batch * shape.seq;
  require_count(op, qkv, tokens * shape.heads.qkv(), qkv.dtype);
  require_count(op, out, tokens * shape.heads.query(), qkv.dtype);
  require_count(op, lse, tokens * shape.heads.heads, accumulator_of(qkv.dtype));
  require_count(op, document_start, tokens, DType::kI32);
}

// `products` of a [seq, seq] matrix with a [seq, width] one per head, of which the causal mask
// leaves half. Those `recomputed` do not count as model FLOPs. `bytes` are read and written.
void record_attention(const Stream& stream, cuda::AttentionPass pass, const AttentionShape& shape,
                      double products, double recomputed, DType dtype, std::size_t bytes) {
  if (stream.executes()) return;
  const bool is_own = stream.on_cuda() && cuda::supposes_own(pass, shape, dtype);
  const auto queries = static_cast<double>(shape.batch * shape.seq * shape.heads.heads),
             keys = static_cast<double>(shape.seq), width = static_cast<double>(shape.heads.width);
  stream.record({.kind = PlannedOp::Kind::kAttention,
                 .name = is_own ? kOwnAttention : "attention",
                 .element = size_of(dtype),
                 .rows = queries,
                 .columns = keys,
                 .depth = width,
                 .flops = products * queries * keys * width,
                 .recomputed_flops = recomputed * queries * keys * width,
                 .bytes = static_cast<double>(bytes)});
}

Shape workspace_of(const Stream& stream, const AttentionShape& shape, DType dtype) {
  if (is_imagined(stream.device())) return {cuda::supposed_workspace(shape, dtype)};
  return TRIREME_CHOICE(stream, attention_workspace(stream.device(), shape, dtype));
}

Shape backward_workspace_of(const Stream& stream, const AttentionShape& shape, DType dtype) {
  if (is_imagined(stream.device())) return {cuda::supposed_backward_workspace(shape, dtype)};
  return TRIREME_CHOICE(stream, attention_backward_workspace(stream.device(), shape, dtype));
}

}  // namespace

void attention(Stream& stream, Arena& scratch, Tensor out, Tensor lse, Tensor qkv,
               Tensor document_start, const AttentionShape& shape) {
  check_shape("attention", qkv, out, lse, document_start, shape);
  record_attention(stream, cuda::AttentionPass::kForward, shape, 2, 0, qkv.dtype,
                   qkv.bytes() + out.bytes());
  if (qkv.count() == 0) return;
  const Arena::Frame frame(scratch);
  const Tensor workspace =
      scratch.take(workspace_of(stream, shape, qkv.dtype), accumulator_of(qkv.dtype));
  TRIREME_DISPATCH(stream, attention(stream, workspace, out, lse, qkv, document_start, shape));
}

void attention_backward(Stream& stream, Arena& scratch, const AttentionBackward& how,
                        const AttentionShape& shape) {
  check_shape("attention_backward", how.qkv, how.out, how.lse, how.document_start, shape);
  require_count("attention_backward: dqkv", how.dqkv, how.qkv.count(), how.qkv.dtype);
  require_count("attention_backward: dout", how.dout, how.out.count(), how.qkv.dtype);
  record_attention(stream, cuda::AttentionPass::kBackward, shape, 4, 1, how.qkv.dtype,
                   how.qkv.bytes() + how.out.bytes() + how.dqkv.bytes() + how.dout.bytes());
  if (how.qkv.count() == 0) return;
  const Arena::Frame frame(scratch);
  const Tensor workspace = scratch.take(backward_workspace_of(stream, shape, how.qkv.dtype),
                                        accumulator_of(how.qkv.dtype));
  TRIREME_DISPATCH(stream, attention_backward(stream, workspace, how, shape));
}

#ifdef TRIREME_CUDA
std::string attention_kernels(Device device, const AttentionShape& shape, DType dtype) {
  return device.is_cuda() ? cuda::attention_kernels(device, shape, dtype) : "our own kernels";
}
#else
std::string attention_kernels(Device, const AttentionShape&, DType) {
  return "our own kernels";
}
#endif

void attention_cached(Stream& stream, Arena& scratch, Tensor out, Tensor qkv, Tensor keys,
                      Tensor values, std::int64_t first, const Heads& heads, double scale) {
  check_heads("attention_cached", heads);
  const std::int64_t tokens = qkv.rows();
  require_count("attention_cached: qkv", qkv, tokens * heads.qkv(), qkv.dtype);
  require_count("attention_cached: out", out, tokens * heads.query(), qkv.dtype);
  require_like("attention_cached: values", values, keys.shape, qkv.dtype);
  require_count("attention_cached: keys", keys, keys.rows() * heads.kv_heads * heads.width,
                qkv.dtype);
  require(first >= 0 && first + tokens <= keys.rows(), "attention_cached: rows [", first, ", ",
          first + tokens, ") of a cache of ", keys.rows());
  const std::int64_t end = first + tokens;
  const Arena::Frame frame(scratch);
  const bool on_cuda = stream.on_cuda();
  const Tensor workspace =
      scratch.take({on_cuda ? cuda::cached_workspace(heads) : 0}, accumulator_of(qkv.dtype));
  const std::int64_t splits = on_cuda ? cuda::cached_splits(tokens, end, heads) : 1;
  const Shape shape{splits > 1 ? tokens : 0, heads.heads, splits, heads.width + 2};
  const Tensor partials = workspace.slice(0, shape.count()).reshaped(shape);
  record_memory(stream, "attention_cached",
                {out, qkv, keys.row_slice(0, end), values.row_slice(0, end), partials, partials});
  TRIREME_DISPATCH(stream,
                   attention_cached(stream, partials, out, qkv, keys, values, first, heads, scale));
}

}  // namespace trireme::ops
