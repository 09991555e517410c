#include "model/params/cut.h"

#include <algorithm>

namespace trireme {

Cut cut_pieces(int dim, std::int64_t pieces, Slice holders) {
  const auto count = static_cast<int>(std::min<std::int64_t>(pieces, holders.count));
  if (count < 1 || pieces % count != 0 || holders.count % count != 0) {
    throw ConfigError(say(pieces, " pieces cannot be shared out evenly among ", holders.count,
                          " ranks: one number must be a multiple of the other"));
  }
  const int replicas = holders.count / count;
  return {.dim = dim,
          .slice = {holders.index / replicas, count},
          .replica = {holders.index % replicas, replicas}};
}

Shape local_shape(Shape logical, Cut cut) {
  if (cut.dim < 0) return logical;
  const std::int64_t extent = std::max(logical[cut.dim], cut.padded);
  if (extent % cut.slice.count != 0) {
    throw ConfigError(say("dimension ", cut.dim, " of a parameter of shape ", logical,
                          " does not divide by ", cut.slice.count));
  }
  logical[cut.dim] = extent / cut.slice.count;
  return logical;
}

Box placement(Shape logical, Cut cut) {
  Box box{logical, local_shape(logical, cut)};
  for (int dim = 0; dim < logical.rank(); ++dim) box.from[dim] = 0;
  if (cut.dim < 0) return box;
  const std::int64_t part = box.extent[cut.dim];
  box.from[cut.dim] = std::min(part * cut.slice.index, logical[cut.dim]);
  box.extent[cut.dim] = std::min(part, logical[cut.dim] - box.from[cut.dim]);
  return box;
}

}  // namespace trireme
