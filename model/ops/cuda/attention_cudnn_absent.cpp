#include "model/base/error.h"
#include "model/ops/cuda/attention_cudnn.h"

namespace trireme::ops::cuda {
namespace {

constexpr const char* kReason = "this program was built without cuDNN's frontend";

}  // namespace

FusedPlan cudnn_attention_plan(Device, AttentionPass, const AttentionShape&, DType) {
  return {.refusal = kReason};
}

bool cudnn_attention(Stream&, AttentionPass, const FusedAttention&, const AttentionShape&) {
  throw Error(kReason);
}

std::string cudnn_attention_name() {
  throw Error(kReason);
}

std::string cudnn_attention_build() {
  return "our own kernels (built without cuDNN's frontend)";
}

}  // namespace trireme::ops::cuda
