#pragma once
#include <string>

#include "model/device/stream.h"
#include "model/ops/heads.h"
#include "model/tensor/arena.h"

namespace trireme::ops {

// PlannedOp::name of attention by our own kernels where a GPU has cuDNN's too.
inline constexpr const char* kOwnAttention = "own_attention";

// Causal softmax attention inside documents, tile by tile with a running maximum
// (FlashAttention, Dao et al. 2022): no [seq, seq] matrix exists beyond a tile.
// Row t of a sequence sees rows [document_start[t], t] of the same sequence.
//   qkv [batch seq, heads.qkv()]   out [batch seq, heads.query()]
//   lse [batch seq, heads] in the accumulator dtype: log-sum-exp of every row's scores
//   document_start [batch seq] I32, index inside the sequence, never decreasing
struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t seq = 1;
  Heads heads;
  double scale = 1;       // usually 1 / sqrt(heads.width)
  bool documents = true;  // false: all of document_start is 0
};
void attention(Stream&, Arena& scratch, Tensor out, Tensor lse, Tensor qkv, Tensor document_start,
               const AttentionShape&);

struct AttentionBackward {
  Tensor dqkv;  // replaced
  Tensor dout, out, qkv, lse, document_start;
};
void attention_backward(Stream&, Arena& scratch, const AttentionBackward&, const AttentionShape&);

// The kernels used for attention and its backward, for display: "cuDNN 9.19.0", or "our own
// kernels: " and the reason.
std::string attention_kernels(Device, const AttentionShape&, DType);

// For generation: appends this call's keys and values to the caches at rows
// [first, first + tokens) and lets its queries attend to all cached rows up to their own.
//   qkv [tokens, heads.qkv()]   keys, values [capacity, kv_heads width]   out [tokens,
//   heads.query()]
void attention_cached(Stream&, Arena& scratch, Tensor out, Tensor qkv, Tensor keys, Tensor values,
                      std::int64_t first, const Heads&, double scale);

}  // namespace trireme::ops
