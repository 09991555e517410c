#include "model/ops/cuda/attention.h"

#include <cstdlib>
#include <initializer_list>

#include "model/ops/cuda/attention_choice.h"
#include "model/ops/cuda/attention_cudnn.h"
#include "model/ops/cuda/attention_own.h"
#include "model/ops/cuda/transpose.h"
#include "model/tensor/arena.h"

namespace trireme::ops::cuda {
namespace {

constexpr std::uintptr_t kAlignment = 16;

FusedPlan plan_of(Device device, AttentionPass pass, const AttentionShape& shape, DType dtype) {
  static const AttentionPreference wish = attention_wish(std::getenv("TRIREME_ATTENTION"));
  const bool warpgroups = has_warpgroup_attention(device, shape, dtype);
  if (std::string reason = why_own_attention(wish, shape, dtype, warpgroups); !reason.empty())
    return {.refusal = std::move(reason)};
  return cudnn_attention_plan(device, pass, shape, dtype);
}

std::int64_t rows_of(const AttentionShape& shape) {
  return shape.batch * shape.seq * shape.heads.heads;
}

// cuDNN's workspace, in accumulators.
std::int64_t own_floats(const FusedPlan& plan) {
  return static_cast<std::int64_t>(Arena::rounded(plan.workspace_bytes) / sizeof(float));
}

bool are_aligned(std::initializer_list<Tensor> tensors) {
  std::uintptr_t bits = 0;
  for (const Tensor& tensor : tensors) bits |= reinterpret_cast<std::uintptr_t>(tensor.data);
  return bits % kAlignment == 0;
}

Tensor as_matrices(Tensor lse, const AttentionShape& shape) {
  return lse.reshaped({shape.batch, shape.seq, shape.heads.heads});
}

// lse in cuDNN's layout, heads before rows, after its workspace.
Tensor lse_by_head(Tensor workspace, const FusedPlan& plan, const AttentionShape& shape) {
  return workspace.slice(own_floats(plan), rows_of(shape))
      .reshaped({shape.batch, shape.heads.heads, shape.seq});
}

std::string text_of(const FusedPlan& plan) {
  return plan.refusal.empty() ? cudnn_attention_name() : "our own kernels: " + plan.refusal;
}

}  // namespace

Shape attention_workspace(Device device, const AttentionShape& shape, DType dtype) {
  const FusedPlan plan = plan_of(device, AttentionPass::kForward, shape, dtype);
  return plan.refusal.empty() ? Shape{own_floats(plan) + rows_of(shape)} : Shape{kOwnWorkspace};
}

Shape attention_backward_workspace(Device device, const AttentionShape& shape, DType dtype) {
  const FusedPlan plan = plan_of(device, AttentionPass::kBackward, shape, dtype);
  return plan.refusal.empty() ? Shape{own_floats(plan) + rows_of(shape)} : Shape{rows_of(shape)};
}

void attention(Stream& stream, Tensor workspace, Tensor out, Tensor lse, Tensor qkv,
               Tensor first_seen, const AttentionShape& shape) {
  const FusedPlan plan = plan_of(stream.device(), AttentionPass::kForward, shape, qkv.dtype);
  if (!plan.refusal.empty() || !are_aligned({qkv, out})) {
    own_attention(stream, workspace.slice(0, kOwnWorkspace), out, lse, qkv, first_seen, shape);
    return;
  }
  const Tensor by_head = lse_by_head(workspace, plan, shape);
  const bool is_done =
      cudnn_attention(stream, AttentionPass::kForward,
                      {.workspace = workspace, .lse = by_head, .qkv = qkv, .out = out}, shape);
  if (!is_done)
    return own_attention(stream, workspace.slice(0, kOwnWorkspace), out, lse, qkv, first_seen,
                         shape);
  transpose(stream, as_matrices(lse, shape), by_head);
}

void attention_backward(Stream& stream, Tensor workspace, const AttentionBackward& how,
                        const AttentionShape& shape) {
  const FusedPlan plan = plan_of(stream.device(), AttentionPass::kBackward, shape, how.qkv.dtype);
  if (!plan.refusal.empty() || !are_aligned({how.qkv, how.out, how.dout, how.dqkv})) {
    own_attention_backward(stream, workspace.slice(0, rows_of(shape)), how, shape);
    return;
  }
  const Tensor by_head = lse_by_head(workspace, plan, shape);
  transpose(stream, by_head, as_matrices(how.lse, shape));
  const FusedAttention on{.workspace = workspace,
                          .lse = by_head,
                          .qkv = how.qkv,
                          .out = how.out,
                          .dout = how.dout,
                          .dqkv = how.dqkv};
  if (cudnn_attention(stream, AttentionPass::kBackward, on, shape)) return;
  own_attention_backward(stream, workspace.slice(0, rows_of(shape)), how, shape);
}

std::string attention_kernels(Device device, const AttentionShape& shape, DType dtype) {
  const std::string forward = text_of(plan_of(device, AttentionPass::kForward, shape, dtype));
  const std::string backward = text_of(plan_of(device, AttentionPass::kBackward, shape, dtype));
  return forward == backward ? forward : forward + " forward, " + backward + " backward";
}

}  // namespace trireme::ops::cuda
