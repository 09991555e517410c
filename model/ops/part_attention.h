#pragma once
#include <cstdint>

#include "model/ops/attention.h"

namespace trireme::ops {

// Attention of some rows of every sequence over some of its rows, for context parallelism: one step
// of Ring Attention (Liu et al. 2023), or queries of a rank over the gathered keys. Query i, which
// is row rows[i] of its sequence, sees the keys whose rows are in [first_seen[i], rows[i]]; those
// may be none. Tiles that no query sees cost nothing.
//   shape.seq queries and `keys` keys in each of shape.batch sequences; shape.dropout.words [batch
//   seq] are the queries'
struct PartAttention {
  std::int64_t keys = 0;
  Tensor qkv;         // [batch seq, heads.qkv()]: only the queries are read
  Tensor kv;          // [batch keys, 2 kv_heads width]: a row's keys, then its values
  Tensor rows;        // [batch seq] I32, ascending in each sequence; empty: query i is row i
  Tensor first_seen;  // [batch seq] I32, never decreasing in each sequence
  // [batch keys] I32, ascending in each sequence; empty: key k is row k. With dropout it is empty.
  Tensor key_rows = {};
};
//   out [batch seq, heads.query()]   lse [batch seq, heads] in the accumulator dtype
// Of a query that sees no key out is 0 and lse minus infinity.
void part_attention(Stream&, Arena& scratch, Tensor out, Tensor lse, const PartAttention&,
                    const AttentionShape&);

// The gradients of one part, given the results of the softmax over the keys of all parts: of the
// queries, of the keys and values, or of both.
struct PartAttentionBackward {
  Tensor dq;              // [batch seq, heads.query()], replaced; empty: not wanted
  Tensor dkv;             // as PartAttention::kv, replaced; empty: not wanted
  Tensor dout, out, lse;  // of all parts
};
void part_attention_backward(Stream&, Arena& scratch, const PartAttentionBackward&,
                             const PartAttention&, const AttentionShape&);

// Adds a part's result to that of the parts before: sum [tokens, heads width] and sum_lse [tokens,
// heads], both in the accumulator dtype, become those of the softmax over the keys of all of them.
// out [tokens, heads width] and lse [tokens, heads] are the part's, in which a row may have seen
// no key.
void merge_attention(Stream&, Tensor sum, Tensor sum_lse, Tensor out, Tensor lse,
                     const Heads& heads);

}  // namespace trireme::ops
