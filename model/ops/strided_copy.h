#pragma once
#include <cstdint>

#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// Layout of a box, which is a slice of the whole tensor along one dimension, in the row-major whole
// tensor: element l of the box is element (l / run) * stride + start + l % run of the whole.
struct Strided {
  std::int64_t first = 0;   // first element of the range in the box
  std::int64_t run = 1;     // length of contiguous ranges in the whole
  std::int64_t stride = 1;  // distance between the starts of such ranges
  std::int64_t start = 0;   // start of the first range
};

// Scatter: whole[index of element i] = part[i] for all elements of part; same dtype.
void scatter_strided(Stream&, Tensor whole, Tensor part, const Strided& where);
// Gather: part[i] = whole[index of element i].
void gather_strided(Stream&, Tensor part, Tensor whole, const Strided& where);

// Stochastic rounding (Gupta et al. 2015): to [count] bfloat16 = from [count] float32, rounded up
// or down with probabilities that make it unbiased; values that bfloat16 represents are unchanged.
// The random bits of an element depend only on the key, the update and its index in the whole
// tensor. If `unless_nan` [1] float32 is NaN nothing changes; it may be empty.
struct StochasticRounding {
  std::uint64_t key = 0;
  std::uint64_t update = 0;
  Strided where;
};
void round_stochastically(Stream&, Tensor to, Tensor from, Tensor unless_nan,
                          const StochasticRounding& how);

}  // namespace trireme::ops
