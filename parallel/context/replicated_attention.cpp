#include "parallel/context/replicated_attention.h"

#include "model/ops/part_attention.h"
#include "parallel/context/head_group.h"

namespace trireme {

// This rank's rows of a table of whole sequences, in scratch.
Tensor ReplicatedAttention::own_rows(ExecContext& ctx, Tensor whole,
                                     const MicroBatch& batch) const {
  const std::int64_t tokens = batch.shard.rows.count();
  const Tensor own = ctx.scratch.take({tokens, whole.count() / batch.tokens()}, whole.dtype);
  ops::take_rows(ctx.stream, own, whole,
                 batch.shard.whole_of_gathered.slice(ranks_.rank() * tokens, tokens));
  return own;
}

// The table of whole sequences of which each rank has its rows.
void ReplicatedAttention::gather(ExecContext& ctx, Tensor whole, Tensor own,
                                 const MicroBatch& batch) const {
  const Arena::Frame frame(ctx.scratch);
  const Tensor of_ranks = ctx.scratch.take(whole.shape, own.dtype);
  ranks_.all_gather(ctx.stream, of_ranks, own);
  ops::take_rows(ctx.stream, whole, of_ranks, batch.shard.gathered_of_whole);
}

namespace {

// Of a rank's rows.
ops::AttentionShape shard_of(const ops::AttentionShape& whole, const MicroBatch& batch) {
  ops::AttentionShape shape = whole;
  shape.seq = batch.shard.rows.count() / batch.sequences;
  return shape;
}

}  // namespace

void ReplicatedAttention::forward(ExecContext& ctx, Tensor out, Tensor lse, Tensor qkv,
                                  const MicroBatch& batch, const ops::AttentionShape& shape) {
  Stream& stream = ctx.stream;
  const HeadGroup all = HeadGroup::whole(shape.heads);
  const Arena::Frame frame(ctx.scratch);
  ops::AttentionShape own = shard_of(shape, batch);
  const std::int64_t tokens = batch.shard.rows.count();
  const Tensor own_out = ctx.scratch.take({tokens, out.width()}, out.dtype);
  const Tensor own_lse = ctx.scratch.take({tokens, lse.width()}, lse.dtype);
  {
    const Arena::Frame of_part(ctx.scratch);
    const Tensor kv = ctx.scratch.take({batch.tokens(), all.kv_width()}, qkv.dtype);
    all.take_keys(stream, {kv}, qkv);
    const Tensor own_qkv = own_rows(ctx, qkv, batch);
    const Tensor first_seen = own_rows(ctx, batch.first_seen(shape.window > 0), batch);
    if (shape.dropout) own.dropout.words = own_rows(ctx, shape.dropout.words, batch);
    ops::part_attention(stream, ctx.scratch, own_out, own_lse,
                        {.keys = batch.seq_len,
                         .qkv = own_qkv,
                         .kv = kv,
                         .rows = batch.shard.rows,
                         .first_seen = first_seen,
                         .key_rows = {}},
                        own);
  }
  gather(ctx, out, own_out, batch);
  gather(ctx, lse, own_lse, batch);
}

// The gradients of a rank's queries with all keys, and of its keys with all queries.
void ReplicatedAttention::backward(ExecContext& ctx, const ops::AttentionBackward& how,
                                   const MicroBatch& batch, const ops::AttentionShape& shape) {
  // Draws are made for whole sequences of keys.
  if (shape.dropout) return AttentionCore::backward(ctx, how, batch, shape);
  Stream& stream = ctx.stream;
  const HeadGroup all = HeadGroup::whole(shape.heads);
  const Arena::Frame frame(ctx.scratch);
  const std::int64_t tokens = batch.shard.rows.count();
  const DType dtype = how.qkv.dtype;
  const Tensor kv = ctx.scratch.take({batch.tokens(), all.kv_width()}, dtype);
  all.take_keys(stream, {kv}, how.qkv);
  {
    const Arena::Frame of_queries(ctx.scratch);
    const Tensor dq = ctx.scratch.take(how.out.shape, dtype);
    const Tensor own_dq = ctx.scratch.take({tokens, dq.width()}, dtype);
    ops::part_attention_backward(
        stream, ctx.scratch,
        {.dq = own_dq,
         .dkv = {},
         .dout = own_rows(ctx, how.dout, batch),
         .out = own_rows(ctx, how.out, batch),
         .lse = own_rows(ctx, how.lse, batch)},
        {.keys = batch.seq_len,
         .qkv = own_rows(ctx, how.qkv, batch),
         .kv = kv,
         .rows = batch.shard.rows,
         .first_seen = own_rows(ctx, batch.first_seen(shape.window > 0), batch),
         .key_rows = {}},
        shard_of(shape, batch));
    gather(ctx, dq, own_dq, batch);
    all.put_queries(stream, how.dqkv, dq);
  }
  const Tensor own_kv = own_rows(ctx, kv, batch);
  const Tensor own_dkv = ctx.scratch.take(own_kv.shape, dtype);
  ops::part_attention_backward(
      stream, ctx.scratch,
      {.dq = {}, .dkv = own_dkv, .dout = how.dout, .out = how.out, .lse = how.lse},
      {.keys = tokens / batch.sequences,
       .qkv = how.qkv,
       .kv = own_kv,
       .rows = {},
       .first_seen = how.first_seen,
       .key_rows = batch.shard.rows},
      shape);
  const Tensor& dkv = kv;  // which is read no more
  gather(ctx, dkv, own_dkv, batch);
  all.put_keys(stream, how.dqkv, {dkv});
}

}  // namespace trireme
