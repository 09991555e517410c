#pragma once
#include "model/device/stream.h"
#include "model/ops/accumulate.h"
#include "model/ops/heads.h"
#include "model/tensor/arena.h"

namespace trireme::ops {

// RMSNorm of every query head and every key head (Qwen3's QK-norm); values are copied. Gains are
// gain_offset + gain, as in norm.h.
//   y, x [tokens, heads.qkv()]   query_gain, key_gain [width]
//   inv_rms [tokens, heads + kv_heads] in the accumulator dtype
struct HeadNorm {
  Tensor y, inv_rms;
  Tensor x, query_gain, key_gain;
  Heads heads;
  double epsilon = 1e-6;
  double gain_offset = 0;
};
void head_norm(Stream&, const HeadNorm&);

// dqkv [tokens, heads.qkv()] is in place: gradient of y on entry, of x on return.
struct HeadNormBackward {
  Tensor dqkv, dquery_gain, dkey_gain;
  Tensor x, query_gain, key_gain, inv_rms;
  Heads heads;
  Accumulate accumulate = Accumulate::kAdd;  // for the gradients of the gains
  double gain_offset = 0;
};
void head_norm_backward(Stream&, Arena& scratch, const HeadNormBackward&);

}  // namespace trireme::ops
