#include "parallel/context/ulysses_attention.h"

#include <algorithm>

#include "model/ops/elementwise.h"
#include "model/ops/table_copy.h"

namespace trireme {

// The heads of a rank.
HeadGroup UlyssesAttention::group(const ops::Heads& heads, std::int64_t rank) const {
  const std::int64_t ranks = ranks_.size();
  return {.all = heads,
          .first_query = rank * heads.heads / ranks,
          .queries = heads.heads / ranks,
          .first_key = rank * heads.kv_heads / ranks,
          .keys = std::max<std::int64_t>(heads.kv_heads / ranks, 1)};
}

// [all ranks' tokens, width] in scratch: this rank's heads of them. take(to, rank) fills the block
// [tokens, width] for a rank.
template <class Take>
Tensor UlyssesAttention::to_heads(ExecContext& ctx, std::int64_t width, DType dtype,
                                  const MicroBatch& batch, const Take& take) const {
  const std::int64_t tokens = batch.tokens(), all = tokens * ranks_.size();
  const Tensor own = ctx.scratch.take({all, width}, dtype);
  const Arena::Frame frame(ctx.scratch);
  const Tensor sent = ctx.scratch.take({all, width}, dtype);
  const Tensor received = ctx.scratch.take({all, width}, dtype);
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    take(sent.row_slice(rank * tokens, tokens), rank);
  }
  ranks_.all_to_all(ctx.stream, received, sent);
  ops::take_rows(ctx.stream, own, received, batch.shard.heads.gathered_of_own);
  return own;
}

// The reverse: put(rank, from) takes the block of a rank's heads.
template <class Put>
void UlyssesAttention::to_tokens(ExecContext& ctx, Tensor of_heads, const MicroBatch& batch,
                                 const Put& put) const {
  const std::int64_t tokens = batch.tokens();
  const Arena::Frame frame(ctx.scratch);
  const Tensor sent = ctx.scratch.take(of_heads.shape, of_heads.dtype);
  const Tensor received = ctx.scratch.take(of_heads.shape, of_heads.dtype);
  ops::take_rows(ctx.stream, sent, of_heads, batch.shard.heads.own_of_gathered);
  ranks_.all_to_all(ctx.stream, received, sent);
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    put(rank, received.row_slice(rank * tokens, tokens));
  }
}

// Of this rank's heads and the tokens after the exchange.
ops::AttentionShape UlyssesAttention::own_shape(const MicroBatch& after,
                                                const ops::AttentionShape& shape) const {
  ops::AttentionShape own = group(shape.heads, ranks_.rank()).shape(shape);
  own.seq = after.seq_len;
  own.dropout = shape.dropout.with(shape.dropout ? after.dropout_words : Tensor{});
  return own;
}

void UlyssesAttention::forward(ExecContext& ctx, Tensor out, Tensor lse, Tensor qkv,
                               const MicroBatch& batch, const ops::AttentionShape& shape) {
  Stream& stream = ctx.stream;
  const ops::Heads& all = shape.heads;
  const MicroBatch after = batch.after_exchange();
  const ops::AttentionShape own = own_shape(after, shape);
  const Arena::Frame frame(ctx.scratch);
  const Tensor own_out = ctx.scratch.take({after.tokens(), own.heads.query()}, out.dtype);
  const Tensor own_lse = ctx.scratch.take({after.tokens(), own.heads.heads}, lse.dtype);
  {
    const Arena::Frame of_qkv(ctx.scratch);
    const Tensor own_qkv =
        to_heads(ctx, own.heads.qkv(), qkv.dtype, batch,
                 [&](Tensor to, int rank) { group(all, rank).take(stream, to, qkv); });
    between_->forward(ctx, own_out, own_lse, own_qkv, after, own);
  }
  to_tokens(ctx, own_out, batch,
            [&](int rank, Tensor from) { group(all, rank).put_queries(stream, out, from); });
  to_tokens(ctx, own_lse, batch,
            [&](int rank, Tensor from) { group(all, rank).put_lse(stream, lse, from); });
}

void UlyssesAttention::backward(ExecContext& ctx, const ops::AttentionBackward& how,
                                const MicroBatch& batch, const ops::AttentionShape& shape) {
  Stream& stream = ctx.stream;
  const ops::Heads& all = shape.heads;
  const MicroBatch after = batch.after_exchange();
  const ops::AttentionShape own = own_shape(after, shape);
  const DType dtype = how.qkv.dtype;
  const Arena::Frame frame(ctx.scratch);
  const auto queries_of = [&](Tensor tensor) {
    return to_heads(ctx, own.heads.query(), dtype, batch, [&, tensor](Tensor to, int rank) {
      group(all, rank).take_queries(stream, to, tensor);
    });
  };
  const Tensor qkv = to_heads(ctx, own.heads.qkv(), dtype, batch, [&](Tensor to, int rank) {
    group(all, rank).take(stream, to, how.qkv);
  });
  const Tensor out = queries_of(how.out), dout = queries_of(how.dout);
  const Tensor lse = to_heads(ctx, own.heads.heads, how.lse.dtype, batch, [&](Tensor to, int rank) {
    group(all, rank).take_lse(stream, to, how.lse);
  });
  const Tensor dqkv = ctx.scratch.take(qkv.shape, dtype);
  between_->backward(ctx,
                     {.dqkv = dqkv,
                      .dout = dout,
                      .out = out,
                      .qkv = qkv,
                      .lse = lse,
                      .first_seen = after.first_seen(own.window > 0)},
                     after, own);
  const std::int64_t tokens = batch.tokens(), ranks = ranks_.size();
  // Ranks with the same key-value head, adjacent, whose terms are summed in float32 or better.
  const std::int64_t sharers = std::max<std::int64_t>(ranks / all.kv_heads, 1);
  const Shape of_keys{tokens, group(all, ranks_.rank()).kv_width()};
  const Tensor term = ctx.scratch.take(of_keys, dtype);
  const Tensor exact = ctx.scratch.take(sharers > 1 ? of_keys : Shape{0}, accumulator_of(dtype));
  const Tensor sum = ctx.scratch.take(sharers > 1 ? of_keys : Shape{0}, accumulator_of(dtype));
  to_tokens(ctx, dqkv, batch, [&](int rank, Tensor from) {
    const HeadGroup of_rank = group(all, rank);
    of_rank.put_queries(stream, how.dqkv, from);
    const ops::Columns keys{from, own.heads.query()};
    if (sharers == 1) return of_rank.put_keys(stream, how.dqkv, keys);
    ops::copy_columns(stream, {term}, keys, term.width());
    ops::cast(stream, rank % sharers == 0 ? sum : exact, term);
    if (rank % sharers > 0) ops::add(stream, sum, sum, exact);
    if (rank % sharers < sharers - 1) return;
    ops::cast(stream, term, sum);
    of_rank.put_keys(stream, how.dqkv, {term});
  });
}

}  // namespace trireme
