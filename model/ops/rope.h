#pragma once
#include "model/device/stream.h"
#include "model/ops/heads.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// Rotary position embedding (Su et al. 2021) in Hugging Face's half-split form: in every query and
// key head, elements i and i + width/2 are rotated by the angle of positions[token] and frequency
// i. In place; values are unchanged.
//   qkv [tokens, heads.qkv()]   positions [tokens] I32
//   table [max_position, width] in the accumulator dtype: width/2 cosines, then width/2 sines
// `backward` rotates in the opposite direction, for gradients.
void rope(Stream&, Tensor qkv, Tensor positions, Tensor table, const Heads&, bool backward);

}  // namespace trireme::ops
