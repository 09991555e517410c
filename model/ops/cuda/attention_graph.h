#pragma once
// The frontend's JSON is for saved plans.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <cstdint>

#include "model/ops/cuda/attention_cudnn.h"

// Attention in the words of cuDNN's frontend. Seen only by sources that have it.
namespace trireme::ops::cuda {

// What a graph's tensors are called when it runs.
enum AttentionTensor : std::int64_t {
  kQueries = 1,
  kKeys,
  kValues,
  kOut,
  kLse,
  kDout,
  kDqueries,
  kDkeys,
  kDvalues,
};

// Adds one pass over tensors of `dtype`, bfloat16 or float16, that lie as AttentionShape says, lse
// [batch, heads, seq], to an empty graph. What the graph is told of a device it must know before.
void add_attention(cudnn_frontend::graph::Graph&, AttentionPass, const AttentionShape&,
                   DType dtype);

}  // namespace trireme::ops::cuda
