#include "model/params/cut.h"

namespace trireme {

Shape local_shape(Shape logical, Cut cut) {
  return placement(logical, cut).extent;
}

Box placement(Shape logical, Cut cut) {
  Box box{logical, logical};
  for (int dim = 0; dim < logical.rank(); ++dim) box.from[dim] = 0;
  if (cut.dim < 0) return box;
  if (logical[cut.dim] % cut.slice.count != 0) {
    throw ConfigError(say("dimension ", cut.dim, " of a parameter of shape ", logical,
                          " does not divide by ", cut.slice.count));
  }
  box.extent[cut.dim] /= cut.slice.count;
  box.from[cut.dim] = box.extent[cut.dim] * cut.slice.index;
  return box;
}

}  // namespace trireme
