#pragma once
#include <string>

#include "model/ops/attention.h"

namespace trireme::ops::cuda {

// By cuDNN's fused kernels where the build has its frontend and they can (attention_choice.h and
// attention_cudnn.h say when), else by our own (attention_own.h). A pass is decided when its
// workspace is planned; tensors that lie off 16 bytes go to our own all the same.

// Shape of the accumulators that attention and its backward need.
Shape attention_workspace(Device, const AttentionShape&, DType dtype);
Shape attention_backward_workspace(Device, const AttentionShape&, DType dtype);

void attention(Stream&, Tensor workspace, Tensor out, Tensor lse, Tensor qkv, Tensor document_start,
               const AttentionShape&);
void attention_backward(Stream&, Tensor workspace, const AttentionBackward&, const AttentionShape&);
void attention_cached(Stream&, Tensor out, Tensor qkv, Tensor keys, Tensor values,
                      std::int64_t first, const Heads&, double scale);

// "cuDNN 9.19.0", "our own kernels: " and why, or one for the forward and one for the backward.
std::string attention_kernels(Device, const AttentionShape&, DType dtype);

}  // namespace trireme::ops::cuda
