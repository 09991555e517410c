#pragma once
#include "model/device/stream.h"
#include "model/ops/heads.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// Rotary position embedding (Su et al. 2021). In the first `rotated` elements of every query and
// key head, pair i is rotated by the angle of positions[token] and frequency i. Pairs are elements
// i and i + rotated/2 (GPT-NeoX and Hugging Face) or, interleaved, 2i and 2i + 1 (GPT-J, GLM-4).
struct Rope {
  Heads heads;
  std::int64_t rotated = 0;  // even; 0: whole heads, otherwise partial rotary
  bool interleaved = false;
  bool backward = false;  // for gradients: rotates in the opposite direction
};

// In place; values and the other elements are unchanged.
//   qkv [tokens, heads.qkv()]   positions [tokens] I32
//   table [max_position, rotated] in the accumulator dtype: rotated/2 cosines, then rotated/2
//   sines, which may be scaled (YaRN's attention factor)
void rope(Stream&, Tensor qkv, Tensor positions, Tensor table, const Rope&);

}  // namespace trireme::ops
