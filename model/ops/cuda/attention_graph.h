#pragma once
// The frontend needs JSON only for saved plans.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <cstdint>

#include "model/ops/cuda/attention_cudnn.h"

// Attention as a graph of cuDNN's frontend. Included only by sources that have it.
namespace trireme::ops::cuda {

// Identifiers of a graph's tensors at execution.
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

// Adds one pass over tensors of `dtype`, bfloat16 or float16, laid out as in AttentionShape, with
// lse [batch, heads, seq], to an empty graph. Device properties must be set on the graph before.
// `in_row`: the heads of a row, of which `shape` may have a part (AttentionParts).
void add_attention(cudnn_frontend::graph::Graph&, AttentionPass, const AttentionShape& shape,
                   DType dtype, const Heads& in_row);

}  // namespace trireme::ops::cuda
