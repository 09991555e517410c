#pragma once
#include <type_traits>

#include "model/base/error.h"
#include "model/device/stream.h"
#include "model/ops/attention.h"
#include "model/ops/cuda/attention_heads.cuh"
#include "model/ops/heads.h"
#include "model/tensor/dtype.h"

// Launches of the attention kernels. bfloat16 and float16 use tensor cores, float and double
// multiply-adds.
namespace trireme::ops::cuda {

// out and dout [tokens, heads width], lse and delta [tokens, heads], dqkv like qkv.
template <class T, class A>
struct AttentionResult {
  T* out = nullptr;
  A* lse = nullptr;
  std::int32_t* next = nullptr;  // scratch: a counter from which blocks draw their work
};
template <class T, class A>
struct AttentionGradient {
  T* dqkv = nullptr;
  const T* dout = nullptr;
  const A* lse = nullptr;
  const A* delta = nullptr;  // sums of dout * out over a row of a head

  static constexpr bool wants_queries() { return true; }
  static constexpr bool wants_keys() { return true; }
};
// dq [tokens, heads width], dkv like PartHeads::kv; null: not wanted.
template <class T, class A>
struct PartGradient {
  T* dq = nullptr;
  T* dkv = nullptr;
  const T* dout = nullptr;
  const A* lse = nullptr;
  const A* delta = nullptr;

  bool wants_queries() const { return dq != nullptr; }
  bool wants_keys() const { return dkv != nullptr; }
};
// Parameters of the kernels for AttentionHeads or PartHeads.
template <class In>
using ResultOf = AttentionResult<typename In::Element, Accumulator<typename In::Element>>;
template <class In>
using GradientOf =
    std::conditional_t<In::kIsPart,
                       PartGradient<typename In::Element, Accumulator<typename In::Element>>,
                       AttentionGradient<typename In::Element, Accumulator<typename In::Element>>>;

void launch_attention(Stream&, int batch, const HeadsWithDropout<Bf16>&,
                      const AttentionResult<Bf16, float>&);
void launch_attention(Stream&, int batch, const HeadsWithDropout<F16>&,
                      const AttentionResult<F16, float>&);
void launch_attention(Stream&, int batch, const HeadsWithDropout<float>&,
                      const AttentionResult<float, float>&);
void launch_attention(Stream&, int batch, const HeadsWithDropout<double>&,
                      const AttentionResult<double, double>&);

// Kernels of compute capability 9.0, for heads of 64 and 128 without a soft cap or dropout. Return
// whether they were launched.
bool launch_attention_wgmma(Stream&, int batch, const AttentionHeads<Bf16>&,
                            const AttentionResult<Bf16, float>&);
bool launch_attention_wgmma(Stream&, int batch, const AttentionHeads<F16>&,
                            const AttentionResult<F16, float>&);

void launch_attention_backward(Stream&, int batch, const HeadsWithDropout<Bf16>&,
                               const AttentionGradient<Bf16, float>&);
void launch_attention_backward(Stream&, int batch, const HeadsWithDropout<F16>&,
                               const AttentionGradient<F16, float>&);
// The same for compute capability 9.0 and heads of 64 or 128. Return whether they were launched.
bool launch_attention_backward_wgmma(Stream&, int batch, const AttentionHeads<Bf16>&,
                                     const AttentionGradient<Bf16, float>&);
bool launch_attention_backward_wgmma(Stream&, int batch, const AttentionHeads<F16>&,
                                     const AttentionGradient<F16, float>&);

void launch_attention_backward(Stream&, int batch, const HeadsWithDropout<float>&,
                               const AttentionGradient<float, float>&);
void launch_attention_backward(Stream&, int batch, const HeadsWithDropout<double>&,
                               const AttentionGradient<double, double>&);

void launch_attention(Stream&, int batch, const PartHeads<Bf16>&,
                      const AttentionResult<Bf16, float>&);
void launch_attention(Stream&, int batch, const PartHeads<F16>&,
                      const AttentionResult<F16, float>&);
void launch_attention(Stream&, int batch, const PartHeads<float>&,
                      const AttentionResult<float, float>&);
void launch_attention(Stream&, int batch, const PartHeads<double>&,
                      const AttentionResult<double, double>&);
void launch_attention_backward(Stream&, int batch, const PartHeads<Bf16>&,
                               const PartGradient<Bf16, float>&);
void launch_attention_backward(Stream&, int batch, const PartHeads<F16>&,
                               const PartGradient<F16, float>&);
void launch_attention_backward(Stream&, int batch, const PartHeads<float>&,
                               const PartGradient<float, float>&);
void launch_attention_backward(Stream&, int batch, const PartHeads<double>&,
                               const PartGradient<double, double>&);

inline void require_width(const Heads& heads) {
  require(heads.width <= 256, "attention on a GPU has heads of up to 256 elements, not ",
          heads.width);
}

// `first_seen` and `vectors` as in AttentionHeads.
template <class T>
HeadsWithDropout<T> heads_of(const Tensor& qkv, const std::int32_t* first_seen,
                             const AttentionShape& shape, bool vectors) {
  require_width(shape.heads);
  // Maxima are computed before scaling.
  require(shape.scale > 0, "attention on a GPU scales scores by more than 0, not ", shape.scale);
  const AttentionHeads<T> all{.qkv = qkv.as<T>(),
                              .first_seen = first_seen,
                              .seq = static_cast<int>(shape.seq),
                              .heads = static_cast<int>(shape.heads.heads),
                              .kv_heads = static_cast<int>(shape.heads.kv_heads),
                              .width = static_cast<int>(shape.heads.width),
                              .scale = shape.scale,
                              .cap = static_cast<Accumulator<T>>(shape.soft_cap / shape.scale),
                              .inverse_cap = static_cast<Accumulator<T>>(
                                  shape.soft_cap > 0 ? shape.scale / shape.soft_cap : 0),
                              .vectors = vectors};
  const Dropout& dropout = shape.dropout;
  return {all,
          dropout ? dropout.words.as<std::int32_t>() : nullptr,
          dropout.key,
          dropout.dropped(),
          static_cast<int>(shape.first_head),
          static_cast<Accumulator<T>>(dropout.scale())};
}

// Calls body.operator()<W>() for the narrowest kernel that supports heads of `width`.
template <class Body>
void with_padded_width(int width, const Body& body) {
  if (width <= 64) {
    body.template operator()<64>();
  } else if (width <= 128) {
    body.template operator()<128>();
  } else {
    body.template operator()<256>();
  }
}

}  // namespace trireme::ops::cuda
