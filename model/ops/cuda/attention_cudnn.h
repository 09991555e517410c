#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "model/ops/cuda/attention_choice.h"

// Causal attention over whole sequences by cuDNN's fused scaled-dot-product attention, in bfloat16
// or float16. Only attention_cudnn.cpp and attention_graph.cpp include cuDNN's frontend; in a build
// without it attention_cudnn_absent.cpp rejects everything.
namespace trireme::ops::cuda {

struct FusedPlan {
  std::size_t workspace_bytes = 0;
  std::string refusal;  // why cuDNN cannot compute this, for display; empty: it can
};
// Plans are made on first use of a shape and dtype and cached for the life of the process; the
// device must exist. Backward plans are deterministic and run in parts (AttentionParts), of which
// the workspace serves one at a time. A refusal, also of a cuDNN that cannot be initialized, is
// logged once as a warning.
FusedPlan cudnn_attention_plan(Device, AttentionPass, const AttentionShape&, DType);

// Every address is a multiple of 16 bytes.
struct FusedAttention {
  Tensor workspace;  // at least the plan's bytes
  Tensor lse;        // [batch, heads, seq] float32: cuDNN's layout
  Tensor qkv, out;
  Tensor dout = {}, dqkv = {};  // backward only, which replaces dqkv
};
// Enqueues a pass that has a plan. The forward writes `out` and `lse`; the backward reads them.
// Returns false if cuDNN fails: the shape is refused from here on, and the pass must be computed
// otherwise.
[[nodiscard]] bool cudnn_attention(Stream&, AttentionPass, const FusedAttention&,
                                   const AttentionShape&);

// Run-time version: "cuDNN 9.19.0".
std::string cudnn_attention_name();
// Of this build, for display: "cuDNN, frontend 1.32.0", or the alternative used.
std::string cudnn_attention_build();

}  // namespace trireme::ops::cuda
