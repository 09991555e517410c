#pragma once
#include <algorithm>
#include <string>

#include "model/device/stream.h"
#include "model/ops/dropout.h"
#include "model/ops/heads.h"
#include "model/tensor/arena.h"

namespace trireme::ops {

// PlannedOp::name of attention by our own kernels where a GPU has cuDNN's too.
inline constexpr const char* kOwnAttention = "own_attention";

// Causal softmax attention, tile by tile with a running maximum (FlashAttention, Dao et al. 2022):
// no [seq, seq] matrix exists beyond a tile. Row t of a sequence sees rows [first_seen[t], t] of
// the same sequence: those of its document and, with a sliding window (Longformer, Beltagy et al.
// 2020; Mistral 7B, Jiang et al. 2023), at most the last `window`. Tiles that no row sees cost
// nothing.
//   qkv [batch seq, heads.qkv()]   out [batch seq, heads.query()]
//   lse [batch seq, heads] in the accumulator dtype: log-sum-exp of every row's scores
//   first_seen [batch seq] I32, index inside the sequence, never decreasing
struct AttentionShape {
  std::int64_t batch = 1;
  std::int64_t seq = 1;
  Heads heads;
  double scale = 1;         // usually 1 / sqrt(heads.width)
  bool masked = true;       // false: all of first_seen is 0
  std::int64_t window = 0;  // rows that a row sees at most, which first_seen holds; 0: all
  // Scores become soft_cap tanh(score / soft_cap) after scaling and before the mask (Gemma 2, Gemma
  // Team 2024); 0: they stay.
  double soft_cap = 0;
  // Drops probabilities, after their sum was taken. That of key k of the sequence for a query whose
  // token has word w, in head h of the whole model, is kept if 16 bits of philox(key, h << 32 | k /
  // 32 * 4 + k % 8 / 2, w) are at least dropped(): those of word k / 8 % 4, the lower ones for even
  // k. So a lane of a tensor core's tile uses all that it draws.
  Dropout dropout = {};
  std::int64_t first_head = 0;  // of this tensor in the whole model, for dropout
};
// first_seen[t] = max(document_start[t], row of t - window + 1), both [batch seq] I32; they may be
// the same tensor. The row is rows[t] or, if `rows` is empty, t's index inside the sequence of
// `seq` tokens.
void window_start(Stream&, Tensor first_seen, Tensor document_start, Tensor rows, std::int64_t seq,
                  std::int64_t window);
void attention(Stream&, Arena& scratch, Tensor out, Tensor lse, Tensor qkv, Tensor first_seen,
               const AttentionShape&);

struct AttentionBackward {
  Tensor dqkv;  // replaced
  Tensor dout, out, qkv, lse, first_seen;
};
void attention_backward(Stream&, Arena& scratch, const AttentionBackward&, const AttentionShape&);

// The kernels used for attention and its backward, for display: "cuDNN 9.19.0", or "our own
// kernels: " and the reason.
std::string attention_kernels(Device, const AttentionShape&, DType);

// For generation: appends this call's keys and values to the caches and lets its queries attend to
// the cached tokens up to their own. Token p of the sequence is at row p % capacity: with a window
// the cache is a ring, which must hold what this call's queries see (rows()); without one it holds
// the sequence.
struct CachedAttention {
  Tensor out, qkv;         // [tokens, heads.query()], [tokens, heads.qkv()]
  Tensor keys, values;     // [capacity, kv_heads width]
  std::int64_t first = 0;  // of this call's tokens, counted in the sequence
  Heads heads;
  double scale = 1, soft_cap = 0;  // as in AttentionShape
  std::int64_t window = 0;         // tokens that a query sees at most; 0: all
  Tensor sinks = {};               // [heads], as in attention_sink.h; empty: none

  std::int64_t end() const { return first + qkv.rows(); }
  // Of the cache: the least capacity.
  std::int64_t rows() const {
    return window > 0 ? std::min(end(), window + qkv.rows() - 1) : end();
  }
  // Tokens that one query sees at most.
  std::int64_t seen() const { return window > 0 ? std::min(end(), window) : end(); }
};
void attention_cached(Stream&, Arena& scratch, const CachedAttention&);

}  // namespace trireme::ops
