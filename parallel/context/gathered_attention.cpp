#include "parallel/context/gathered_attention.h"

#include <vector>

#include "model/ops/part_attention.h"
#include "model/ops/table_copy.h"
#include "parallel/context/head_group.h"

namespace trireme {
namespace {

// Groups whose keys and values of `ranks` ranks are no larger than all of a token's heads.
std::vector<HeadGroup> groups_of(const ops::Heads& all, std::int64_t ranks) {
  std::int64_t keys = all.kv_heads;
  while (keys > 1 &&
         (all.kv_heads % keys != 0 || 2 * keys * ranks > all.heads + 2 * all.kv_heads)) {
    --keys;
  }
  const std::int64_t queries = keys * (all.heads / all.kv_heads);
  std::vector<HeadGroup> groups;
  for (std::int64_t i = 0; i < all.kv_heads / keys; ++i) {
    groups.push_back({all, i * queries, queries, i * keys, keys});
  }
  return groups;
}

ops::PartAttention part_of(Tensor qkv, Tensor kv, const MicroBatch& batch,
                           const ops::AttentionShape& shape) {
  return {.keys = batch.shard.seq_len,
          .qkv = qkv,
          .kv = kv,
          .rows = batch.shard.rows,
          .first_seen = batch.first_seen(shape.window > 0),
          .key_rows = {}};
}

}  // namespace

// The keys and values of whole sequences, in scratch.
Tensor GatheredAttention::gathered(ExecContext& ctx, Tensor own, const MicroBatch& batch) const {
  const Tensor kv =
      ctx.scratch.take({batch.sequences * batch.shard.seq_len, own.width()}, own.dtype);
  const Arena::Frame frame(ctx.scratch);
  const Tensor of_ranks = ctx.scratch.take(kv.shape, own.dtype);
  ranks_.all_gather(ctx.stream, of_ranks, own);
  ops::take_rows(ctx.stream, kv, of_ranks, batch.shard.gathered_of_whole);
  return kv;
}

void GatheredAttention::forward(ExecContext& ctx, Tensor out, Tensor lse, Tensor qkv,
                                const MicroBatch& batch, const ops::AttentionShape& shape) {
  const std::int64_t tokens = qkv.rows();
  for (const HeadGroup& group : groups_of(shape.heads, ranks_.size())) {
    const ops::AttentionShape of_group = group.shape(shape);
    const Arena::Frame frame(ctx.scratch);
    const Tensor own = ctx.scratch.take({tokens, of_group.heads.qkv()}, qkv.dtype);
    const Tensor own_kv = ctx.scratch.take({tokens, group.kv_width()}, qkv.dtype);
    const Tensor own_out = ctx.scratch.take({tokens, of_group.heads.query()}, qkv.dtype);
    const Tensor own_lse = ctx.scratch.take({tokens, of_group.heads.heads}, lse.dtype);
    group.take_queries(ctx.stream, own, qkv);
    group.take_keys(ctx.stream, {own_kv}, qkv);
    const Tensor kv = gathered(ctx, own_kv, batch);
    ops::part_attention(ctx.stream, ctx.scratch, own_out, own_lse,
                        part_of(own, kv, batch, of_group), of_group);
    group.put_queries(ctx.stream, out, own_out);
    group.put_lse(ctx.stream, lse, own_lse);
  }
}

void GatheredAttention::backward(ExecContext& ctx, const ops::AttentionBackward& how,
                                 const MicroBatch& batch, const ops::AttentionShape& shape) {
  const Tensor& qkv = how.qkv;
  const std::int64_t tokens = qkv.rows();
  for (const HeadGroup& group : groups_of(shape.heads, ranks_.size())) {
    const ops::AttentionShape of_group = group.shape(shape);
    const Arena::Frame frame(ctx.scratch);
    const Shape queries{tokens, of_group.heads.query()};
    const Tensor own = ctx.scratch.take({tokens, of_group.heads.qkv()}, qkv.dtype);
    const Tensor own_kv = ctx.scratch.take({tokens, group.kv_width()}, qkv.dtype);
    const Tensor out = ctx.scratch.take(queries, qkv.dtype);
    const Tensor dout = ctx.scratch.take(queries, qkv.dtype);
    const Tensor dq = ctx.scratch.take(queries, qkv.dtype);
    const Tensor lse = ctx.scratch.take({tokens, of_group.heads.heads}, how.lse.dtype);
    group.take_queries(ctx.stream, own, qkv);
    group.take_queries(ctx.stream, out, how.out);
    group.take_queries(ctx.stream, dout, how.dout);
    group.take_lse(ctx.stream, lse, how.lse);
    group.take_keys(ctx.stream, {own_kv}, qkv);
    const Tensor kv = gathered(ctx, own_kv, batch);
    const Tensor dkv = ctx.scratch.take(kv.shape, kv.dtype);
    ops::part_attention_backward(ctx.stream, ctx.scratch,
                                 {.dq = dq, .dkv = dkv, .dout = dout, .out = out, .lse = lse},
                                 part_of(own, kv, batch, of_group), of_group);
    group.put_queries(ctx.stream, how.dqkv, dq);
    ops::take_rows(ctx.stream, kv, dkv, batch.shard.whole_of_gathered);
    ranks_.reduce_scatter(ctx.stream, own_kv, kv);
    group.put_keys(ctx.stream, how.dqkv, {own_kv});
  }
}

}  // namespace trireme
