#pragma once
#include "model/ops/attention.h"

namespace trireme::ops::cuda {

// Attention by our own kernels, any dtype and mask, heads of up to 256 elements. bfloat16 and
// float16 go through the tensor cores, with products summed in float32 and probabilities rounded to
// the dtype before they weigh values. The backward goes over the tiles twice, once for the
// queries' gradients and once for those of keys and values, so that each is summed by one block
// in one order: no atomics.
void own_attention(Stream&, Tensor out, Tensor lse, Tensor qkv, Tensor document_start,
                   const AttentionShape&);
// `delta` [batch seq, heads] accumulators is scratch: for every row the sum of dout * out.
void own_attention_backward(Stream&, Tensor delta, const AttentionBackward&, const AttentionShape&);

}  // namespace trireme::ops::cuda
