#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "model/device/stream.h"
#include "model/params/param_store.h"

namespace trireme::verify {

// Calls visit(local, logical, count) for each range of elements [first, first + count) of a
// parameter's box that is contiguous in the logical tensor: `local` is its offset from `first`,
// `logical` its offset in the logical tensor.
template <class Visit>
void for_each_range(const Param& param, std::int64_t first, std::int64_t count,
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

// Copies a device or host tensor to the host as doubles.
std::vector<double> read_elements(Stream& stream, const Tensor& tensor);
// Writes values to a float32 tensor. Throws Error for any other dtype.
void write_elements(Stream& stream, const Tensor& tensor, std::span<const float> values);

}  // namespace trireme::verify
