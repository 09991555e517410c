#pragma once
#include "model/tensor/tensor.h"

namespace trireme {

// Part `index` of `count`. All a layer ever learns about how many processes
// share its work.
struct Slice {
  int index = 0;
  int count = 1;
};

// How one logical parameter is cut along dimension `dim`, of which we hold `slice`.
struct Cut {
  int dim = -1;  // -1: whole
  Slice slice;
};

// A rectangle of elements: [from, from + extent) in every dimension.
struct Box {
  Shape from, extent;
  bool operator==(const Box&) const = default;
};

// The shape of the part held here. Throws ConfigError when the cut does not divide.
Shape local_shape(Shape logical, Cut cut);

// The rectangle of the logical tensor that the part held here is. The local
// tensor is that rectangle, contiguous, row-major.
Box placement(Shape logical, Cut cut);

}  // namespace trireme
