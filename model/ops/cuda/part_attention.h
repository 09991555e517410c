#pragma once
#include "model/ops/part_attention.h"

namespace trireme::ops::cuda {

// By our own kernels.

// Shape of the workspace of part_attention and its backward, in accumulators.
Shape part_attention_workspace(Device, std::int64_t keys, const AttentionShape&, DType dtype);
Shape part_attention_backward_workspace(Device, std::int64_t keys, const AttentionShape&,
                                        DType dtype);

void part_attention(Stream&, Tensor workspace, Tensor out, Tensor lse, const PartAttention&,
                    const AttentionShape&);
void part_attention_backward(Stream&, Tensor workspace, const PartAttentionBackward&,
                             const PartAttention&, const AttentionShape&);
void merge_attention(Stream&, Tensor sum, Tensor sum_lse, Tensor out, Tensor lse, const Heads&);

}  // namespace trireme::ops::cuda
