#pragma once
#include <cstdint>

#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// Where elements of a rectangle that is cut along one dimension lie in the whole tensor, both
// row by row: the rectangle's element l is the whole's (l / run) * stride + start + l % run.
struct Placed {
  std::int64_t first = 0;   // the rectangle's element that is ours to begin with
  std::int64_t run = 1;     // neighbours in the rectangle that are neighbours in the whole
  std::int64_t stride = 1;  // from the start of such a run to the next one's
  std::int64_t start = 0;   // of the first run
};

// whole[where element i lies] = part[i] for all elements of part; the same dtype.
void place(Stream&, Tensor whole, Tensor part, const Placed& where);
// part[i] = whole[where element i lies].
void pick(Stream&, Tensor part, Tensor whole, const Placed& where);

// to [count] bfloat16 = from [count] float32, up or down to a neighbour with the probability
// that makes the mean right (Gupta et al. 2015); what bfloat16 holds stays itself. The choice
// for an element depends on the key, the update and its index in the whole tensor only.
// Nothing changes when `unless_nan` [1] float32 is NaN; it may be empty.
struct StochasticRounding {
  std::uint64_t key = 0;
  std::uint64_t update = 0;
  Placed where;
};
void round_stochastically(Stream&, Tensor to, Tensor from, Tensor unless_nan,
                          const StochasticRounding& how);

}  // namespace trireme::ops
