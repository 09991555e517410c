#pragma once
#include "model/device/stream.h"
#include "model/ops/heads.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// Rotary positions (Su et al. 2021), the half-split form of Hugging Face: in
// every query and key head, elements i and i + width/2 turn by the angle of
// positions[token] and frequency i. In place; values are left alone.
//   qkv [tokens, heads.qkv()]   positions [tokens] I32
//   table [max_position, width] in the accumulator dtype: width/2 cosines, then width/2 sines
// `backward` turns the other way, which takes gradients back.
void rope(Stream&, Tensor qkv, Tensor positions, Tensor table, const Heads&, bool backward);

}  // namespace trireme::ops
