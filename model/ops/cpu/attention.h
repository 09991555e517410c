#pragma once
#include "model/ops/attention.h"

namespace trireme::ops::cpu {

// Shape of the workspace of attention and its backward, in accumulators: one row per thread.
Shape attention_workspace(Device, const AttentionShape&, DType dtype);
Shape attention_backward_workspace(Device, const AttentionShape&, DType dtype);
Shape part_attention_workspace(std::int64_t keys, const AttentionShape&, DType dtype);
Shape part_attention_backward_workspace(std::int64_t keys, const AttentionShape&, DType dtype);

// Each query tile of each head is computed independently and each key's gradient is summed over the
// queries in order, so the bits do not depend on the number of threads.
void attention(Stream&, Tensor workspace, Tensor out, Tensor lse, Tensor qkv, Tensor first_seen,
               const AttentionShape&);
void attention_backward(Stream&, Tensor workspace, const AttentionBackward&, const AttentionShape&);
void window_start(Stream&, Tensor first_seen, Tensor document_start, Tensor rows, std::int64_t seq,
                  std::int64_t window);
void attention_cached(Stream&, Tensor workspace, const CachedAttention&);

}  // namespace trireme::ops::cpu
