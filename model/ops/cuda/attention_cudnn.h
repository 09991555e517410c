#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "model/ops/attention.h"

// Causal attention over whole sequences by cuDNN's fused scaled-dot-product attention, of bfloat16
// or float16. attention_cudnn.cpp is the only source that sees cuDNN's frontend; in a build without
// it attention_cudnn_absent.cpp stands in, which refuses everything.
namespace trireme::ops::cuda {

enum class AttentionPass : std::uint8_t { kForward, kBackward };

struct FusedPlan {
  std::size_t workspace_bytes = 0;
  std::string refusal;  // why cuDNN does not compute this here, for people; empty: it does
};
// Made with the first question about a shape and dtype and kept as long as the process; the device
// must be there. The backward's plans give the same bits in every run. Throws EnvironmentError when
// cuDNN itself does not start.
FusedPlan cudnn_attention_plan(Device, AttentionPass, const AttentionShape&, DType);

// Every address is a multiple of 16 bytes.
struct FusedAttention {
  Tensor workspace;  // of the plan's bytes or more
  Tensor lse;        // [batch, heads, seq] float32: as cuDNN likes it
  Tensor qkv, out;
  Tensor dout = {}, dqkv = {};  // of the backward, which replaces dqkv; else none
};
// Queues a pass that has a plan. The forward writes `out` and `lse`; the backward reads them.
void cudnn_attention(Stream&, AttentionPass, const FusedAttention&, const AttentionShape&);

// "cuDNN 9.19.0", the library that runs.
std::string cudnn_attention_name();
// Of this build, for people: "cuDNN, frontend 1.32.0", or what is there instead.
std::string cudnn_attention_build();

}  // namespace trireme::ops::cuda
