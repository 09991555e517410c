#pragma once
#include "model/base/error.h"
#include "model/device/stream.h"
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
};

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

inline void require_width(const Heads& heads) {
  require(heads.width <= 256, "attention on a GPU has heads of up to 256 elements, not ",
          heads.width);
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
