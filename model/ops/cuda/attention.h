#pragma once
#include <string>

#include "model/ops/attention.h"

namespace trireme::ops::cuda {

// By cuDNN's fused kernels if the build has cuDNN's frontend and they support the shape (see
// attention_choice.h and attention_cudnn.h), otherwise by our own (attention_own.h). The choice is
// made when the workspace is planned; tensors that are not aligned to 16 bytes always use our own.

// Shape of the workspace of attention and its backward, in accumulators.
Shape attention_workspace(Device, const AttentionShape&, DType dtype);
Shape attention_backward_workspace(Device, const AttentionShape&, DType dtype);

void attention(Stream&, Tensor workspace, Tensor out, Tensor lse, Tensor qkv, Tensor first_seen,
               const AttentionShape&);
void attention_backward(Stream&, Tensor workspace, const AttentionBackward&, const AttentionShape&);
void window_start(Stream&, Tensor first_seen, Tensor document_start, Tensor rows, std::int64_t seq,
                  std::int64_t window);
void attention_cached(Stream&, Tensor workspace, const CachedAttention&);

// "cuDNN 9.19.0", "our own kernels: " and the reason, or one entry each for forward and backward.
std::string attention_kernels(Device, const AttentionShape&, DType dtype);

}  // namespace trireme::ops::cuda
