#pragma once
#include <algorithm>

#include "model/ops/placed.h"
#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// Where the elements from `first` on of the rectangle that is held lie in the logical tensor.
inline ops::Placed placed_of(const Param& param, std::int64_t first) {
  const Shape& whole = param.spec.shape;
  const int cut = param.spec.cut.dim;
  std::int64_t tail = 1;
  for (int dim = std::max(cut, 0) + 1; dim < whole.rank(); ++dim) tail *= whole[dim];
  const std::int64_t held = cut < 0 ? whole[0] : param.box.extent[cut];
  const std::int64_t from = cut < 0 ? 0 : param.box.from[cut];
  return {.first = first,
          .run = std::max<std::int64_t>(held * tail, 1),
          .stride = std::max<std::int64_t>(whole[std::max(cut, 0)] * tail, 1),
          .start = from * tail};
}

// Whether this rank's elements count among those of the tensor group: of neighbours that hold
// one and the same part the first's do. Unlike Param::counted(), also on a stage whose table is
// tied to another's.
inline bool counts_among(const Communicator& tensor, const Param& param) {
  const Cut& cut = param.spec.cut;
  const int parts = cut.dim < 0 ? 1 : cut.slice.count;
  return tensor.rank() % (tensor.size() / parts) == 0;
}

}  // namespace trireme
