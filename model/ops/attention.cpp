#include "model/ops/attention.h"

#include "model/device/imagined.h"
#include "model/ops/attention_checks.h"
#include "model/ops/cpu/attention.h"
#include "model/ops/cuda/attention.h"
#include "model/ops/cuda/attention_choice.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {
namespace {

void record_attention(const Stream& stream, cuda::AttentionPass pass, const AttentionShape& shape,
                      double products, double recomputed, DType dtype, std::size_t bytes) {
  if (stream.executes()) return;
  const bool is_own = stream.on_cuda() && cuda::supposes_own(pass, shape, dtype);
  const std::int64_t window = shape.window > 0 ? std::min(shape.window, shape.seq) : shape.seq;
  // The causal mask leaves half, and the first rows of a sequence see fewer than a window.
  const auto seq = static_cast<double>(shape.seq), keys = static_cast<double>(window);
  record_products(stream,
                  {.name = is_own ? kOwnAttention : "attention",
                   .pairs = keys * (2 * seq - keys) / 2,
                   .columns = window,
                   .products = products,
                   .recomputed = recomputed,
                   .bytes = bytes},
                  shape, dtype);
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
               Tensor first_seen, const AttentionShape& shape) {
  check_attention("attention", qkv, out, lse, first_seen, shape.seq, shape);
  record_attention(stream, cuda::AttentionPass::kForward, shape, 2, 0, qkv.dtype,
                   qkv.bytes() + out.bytes());
  if (qkv.count() == 0) return;
  const Arena::Frame frame(scratch);
  const Tensor workspace =
      scratch.take(workspace_of(stream, shape, qkv.dtype), accumulator_of(qkv.dtype));
  TRIREME_DISPATCH(stream, attention(stream, workspace, out, lse, qkv, first_seen, shape));
}

void window_start(Stream& stream, Tensor first_seen, Tensor document_start, Tensor rows,
                  std::int64_t seq, std::int64_t window) {
  const std::int64_t tokens = document_start.count();
  require_count("window_start: document_start", document_start, tokens, DType::kI32);
  require_count("window_start: first_seen", first_seen, tokens, DType::kI32);
  if (rows) require_count("window_start: rows", rows, tokens, DType::kI32);
  require(window > 0 && seq > 0 && tokens % seq == 0, "window_start: a window of ", window,
          " in sequences of ", seq, " of ", tokens, " tokens");
  record_memory(stream, "window_start", {first_seen, document_start, rows});
  TRIREME_DISPATCH(stream, window_start(stream, first_seen, document_start, rows, seq, window));
}

void attention_backward(Stream& stream, Arena& scratch, const AttentionBackward& how,
                        const AttentionShape& shape) {
  check_attention("attention_backward", how.qkv, how.out, how.lse, how.first_seen, shape.seq,
                  shape);
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

void attention_cached(Stream& stream, Arena& scratch, const CachedAttention& how) {
  const Heads& heads = how.heads;
  const Tensor &qkv = how.qkv, &keys = how.keys;
  check_scores("attention_cached", heads, how.soft_cap);
  const std::int64_t tokens = qkv.rows();
  require_count("attention_cached: qkv", qkv, tokens * heads.qkv(), qkv.dtype);
  require_count("attention_cached: out", how.out, tokens * heads.query(), qkv.dtype);
  require_like("attention_cached: values", how.values, keys.shape, qkv.dtype);
  require_count("attention_cached: keys", keys, keys.rows() * heads.kv_heads * heads.width,
                qkv.dtype);
  if (how.sinks) require_count("attention_cached: sinks", how.sinks, heads.heads, qkv.dtype);
  require(how.first >= 0 && how.window >= 0 && how.rows() <= keys.rows(),
          "attention_cached: tokens [", how.first, ", ", how.end(), ") with a window of ",
          how.window, " take ", how.rows(), " rows of a cache of ", keys.rows());
  const Arena::Frame frame(scratch);
  const bool on_cuda = stream.on_cuda();
  const Tensor workspace =
      scratch.take({on_cuda ? cuda::cached_workspace(heads) : 0}, accumulator_of(qkv.dtype));
  const std::int64_t splits = on_cuda ? cuda::cached_splits(tokens, how.seen(), heads) : 1;
  const Shape shape{splits > 1 ? tokens : 0, heads.heads, splits, heads.width + 2};
  const Tensor partials = workspace.slice(0, shape.count()).reshaped(shape);
  record_memory(stream, "attention_cached",
                {how.out, qkv, keys.row_slice(0, how.rows()), how.values.row_slice(0, how.rows()),
                 partials, partials});
  TRIREME_DISPATCH(stream, attention_cached(stream, partials, how));
}

}  // namespace trireme::ops
