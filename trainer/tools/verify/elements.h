#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "model/device/stream.h"
#include "model/params/param_store.h"

namespace trireme::verify {

// Calls visit(first here, first in the logical tensor, count) for the stretches of elements
// [first, first + count) of a parameter's box that are neighbours in the logical tensor as well;
// `here` counts from `first`.
template <class Visit>
void for_each_stretch(const Param& param, std::int64_t first, std::int64_t count,
                      const Visit& visit) {
  const Shape& logical = param.spec.shape;
  const int dim = std::max(param.spec.cut.dim, 0);
  std::int64_t inner = 1;
  for (int d = dim + 1; d < logical.rank(); ++d) inner *= logical[d];
  const std::int64_t held = param.box.extent[dim] * inner, all = logical[dim] * inner;
  for (std::int64_t here = 0; here < count;) {
    const std::int64_t outer = (first + here) / held, inside = (first + here) % held;
    const std::int64_t n = std::min(held - inside, count - here);
    visit(here, outer * all + param.box.from[dim] * inner + inside, n);
    here += n;
  }
}

// A tensor of the stream's device, or the host's, as numbers.
std::vector<double> read_elements(Stream& stream, const Tensor& tensor);
// Rounded to the tensor's dtype, which is an accumulator's.
void write_elements(Stream& stream, const Tensor& tensor, std::span<const float> values);

}  // namespace trireme::verify
