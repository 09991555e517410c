#pragma once
#include <cmath>
#include <cstdint>

#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// Dropout (Srivastava et al. 2014). Whether an element is kept depends on its token's word, its
// column and the place in the model, so that masks are the same in every layout, and a backward
// draws them again instead of reading them. Element `column` of a token with word w is kept if the
// 16 bits number column % 8 of philox(key, column / 8, w) are at least dropped(); a word of Philox
// has the lower bits first. For those of attention see ops/attention.h.
struct Dropout {
  double rate = 0;        // share of the elements, below 1, rounded to a multiple of 2^-16; 0: none
  std::uint64_t key = 0;  // of the place in the model
  Tensor words = {};      // [tokens] I32, random, of each token

  explicit operator bool() const { return rate > 0; }
  // For a micro-batch of tokens with these words; without words nothing is dropped.
  Dropout with(Tensor of_tokens) const { return {of_tokens ? rate : 0, key, of_tokens}; }
  std::uint32_t dropped() const { return static_cast<std::uint32_t>(std::lround(rate * 65536)); }
  // Of the elements that are kept.
  double scale() const { return 65536.0 / (65536.0 - dropped()); }
};

// y = x [tokens, width] with dropped elements zero and the others scaled; y may be x. The gradient
// of x is the same function of that of y.
void dropout(Stream&, Tensor y, Tensor x, const Dropout&);

}  // namespace trireme::ops
