#pragma once
#include "model/ops/attention.h"

namespace trireme::ops::cuda {

// Whether the kernels of compute capability 9.0 compute attention of this shape on the device.
bool has_warpgroup_attention(Device, const AttentionShape&, DType);

// Attention by our own kernels, for any dtype and mask, and heads of up to 256 elements. bfloat16
// and float16 use tensor cores, with products accumulated in float32 and probabilities rounded to
// the dtype before the product with values. The backward walks the tiles twice, once for query
// gradients and once for key and value gradients, so that each is summed by one block in a fixed
// order, without atomics.
// `workspace` [kOwnWorkspace] accumulators is scratch.
void own_attention(Stream&, Tensor workspace, Tensor out, Tensor lse, Tensor qkv, Tensor first_seen,
                   const AttentionShape&);
// `delta` [batch seq, heads] accumulators is scratch: the sum of dout * out per row.
void own_attention_backward(Stream&, Tensor delta, const AttentionBackward&, const AttentionShape&);
// Sums of dout * out over the rows of heads, each of `width` elements.
void attention_delta(Stream&, Tensor delta, Tensor dout, Tensor out, std::int64_t width);

}  // namespace trireme::ops::cuda
