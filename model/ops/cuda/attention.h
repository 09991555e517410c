#pragma once
#include "model/ops/attention.h"

namespace trireme::ops::cuda {

// Shape of the accumulators that attention and its backward need: none, and for every
// row of every head the sum of dout * out.
Shape attention_workspace(const AttentionShape&, DType dtype);
Shape attention_backward_workspace(const AttentionShape&, DType dtype);

// Heads of up to 256 elements. bfloat16 goes through the tensor cores, with products
// summed in float32 and probabilities rounded to bfloat16 before they weigh values. The
// backward goes over the tiles twice, once for the queries' gradients and once for those of
// keys and values, so that each is summed by one block in one order: no atomics.
void attention(Stream&, Tensor workspace, Tensor out, Tensor lse, Tensor qkv, Tensor document_start,
               const AttentionShape&);
void attention_backward(Stream&, Tensor workspace, const AttentionBackward&, const AttentionShape&);
void attention_cached(Stream&, Tensor out, Tensor qkv, Tensor keys, Tensor values,
                      std::int64_t first, const Heads&, double scale);

}  // namespace trireme::ops::cuda
