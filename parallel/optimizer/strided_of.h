#pragma once
#include <algorithm>

#include "model/ops/strided_copy.h"
#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// Layout in the logical tensor of the elements from `first` on of the held box.
inline ops::Strided strided_of(const Param& param, std::int64_t first) {
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

// Whether this rank's elements count in a sum over the tensor group: of ranks with the same box,
// only the first counts. Unlike Param::is_primary_replica(), this also holds on a stage whose
// embedding table is tied to another stage's.
inline bool counts_among(const Communicator& tensor, const Param& param) {
  const Cut& cut = param.spec.cut;
  const int parts = cut.dim < 0 ? 1 : cut.slice.count;
  return tensor.rank() % (tensor.size() / parts) == 0;
}

}  // namespace trireme
