#pragma once
#include "model/ops/attention.h"
#include "model/ops/check.h"

// What the ops of attention check and record alike.
namespace trireme::ops {

// Tiles store positions in the accumulator dtype.
inline constexpr std::int64_t kMostExactPosition = std::int64_t{1} << 24;

inline void check_scores(const char* op, const Heads& heads, double soft_cap) {
  require(soft_cap >= 0, op, ": a soft cap of ", soft_cap);
  require(heads.kv_heads > 0 && heads.heads % heads.kv_heads == 0 && heads.width > 0, op, ": ",
          heads.heads, " query heads for ", heads.kv_heads, " key heads of width ", heads.width);
}

// The queries and what attention makes of them; `longest` is the least sequence that a window must
// hold where nothing is masked.
inline void check_attention(const char* op, Tensor qkv, Tensor out, Tensor lse, Tensor first_seen,
                            std::int64_t longest, const AttentionShape& shape) {
  check_scores(op, shape.heads, shape.soft_cap);
  require(longest < kMostExactPosition, op, ": a sequence of ", longest);
  require(shape.window >= 0, op, ": a window of ", shape.window);
  require(shape.masked || shape.window == 0 || shape.window >= longest, op, ": a window of ",
          shape.window, " of ", longest, " rows without a mask");
  const std::int64_t tokens = shape.batch * shape.seq;
  require_count(op, qkv, tokens * shape.heads.qkv(), qkv.dtype);
  require_count(op, out, tokens * shape.heads.query(), qkv.dtype);
  require_count(op, lse, tokens * shape.heads.heads, accumulator_of(qkv.dtype));
  require_count(op, first_seen, tokens, DType::kI32);
  if (shape.dropout) {
    require(shape.dropout.dropped() < 65536, op, ": a dropout of ", shape.dropout.rate);
    require_count(op, shape.dropout.words, tokens, DType::kI32);
  }
}

// `products` of the matrix of a head's probabilities, of which the mask leaves `pairs` of a query
// and one of `columns` keys, with one of the head's width. Those `recomputed` do not count as model
// FLOPs. `bytes` are read and written.
struct AttentionProducts {
  const char* name = "attention";
  double pairs = 0;
  std::int64_t columns = 0;
  double products = 0, recomputed = 0;
  std::size_t bytes = 0;
};
inline void record_products(const Stream& stream, const AttentionProducts& how,
                            const AttentionShape& shape, DType dtype) {
  const auto heads = static_cast<double>(shape.batch * shape.heads.heads),
             width = static_cast<double>(shape.heads.width);
  const double flops = 2 * heads * how.pairs * width;  // a multiply and an add
  stream.record({.kind = PlannedOp::Kind::kAttention,
                 .name = how.name,
                 .element = size_of(dtype),
                 .rows = heads * static_cast<double>(shape.seq),
                 .columns = static_cast<double>(how.columns),
                 .depth = width,
                 .flops = how.products * flops,
                 .recomputed_flops = how.recomputed * flops,
                 .bytes = static_cast<double>(how.bytes)});
}

}  // namespace trireme::ops
