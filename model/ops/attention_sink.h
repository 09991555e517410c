#pragma once
#include "model/device/stream.h"
#include "model/ops/accumulate.h"
#include "model/ops/heads.h"
#include "model/tensor/arena.h"

namespace trireme::ops {

// Attention sinks (Xiao et al. 2023, "Efficient Streaming Language Models with Attention Sinks";
// gpt-oss, OpenAI 2025): a learned logit per head joins the denominator of each row's softmax, but
// has no value. sinks [heads]; out [tokens, heads.query()] and lse [tokens, heads], in the
// accumulator dtype, are those of attention.h.

// Changes the result of attention() without sinks to that with them: out *= sigmoid(lse - sink),
// lse = log(exp(lse) + exp(sink)). With this lse and out, attention_backward() gives the gradients
// of queries, keys and values.
void attention_sink(Stream&, Tensor out, Tensor lse, Tensor sinks, const Heads& heads);

// dsinks [heads], in the accumulator dtype, = or += the sum over tokens of -exp(sink - lse) times
// the dot product of a head's rows of dout and out; out and lse are with sinks.
struct AttentionSinkBackward {
  Tensor dsinks;
  Tensor dout, out, lse, sinks;
  Heads heads;
  Accumulate accumulate = Accumulate::kAdd;
};
void attention_sink_backward(Stream&, Arena& scratch, const AttentionSinkBackward&);

}  // namespace trireme::ops
