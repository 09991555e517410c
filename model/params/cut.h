#pragma once
#include <cstdint>
#include <vector>

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
  Slice slice = {};
  // The holders of one and the same part are its replicas; they are neighbours.
  // Replica 0 is the one that stands for the part: only it is written to a
  // checkpoint and counted in a norm over all ranks.
  Slice replica = {};
  // The extent that is shared out, when more than the logical one: a multiple of
  // slice.count. What lies beyond the logical extent exists in memory only.
  std::int64_t padded = 0;
};

// One parameter that every holder has in full.
inline Cut whole(Slice holders) {
  return {.dim = -1, .slice = {}, .replica = holders};
}

// A dimension of `pieces` equal pieces that stay in one: every holder gets as many
// as the others or, where there are fewer pieces than holders, one that it shares
// with its neighbours. One number must be a multiple of the other.
Cut cut_pieces(int dim, std::int64_t pieces, Slice holders);

// A rectangle of elements: [from, from + extent) in every dimension.
struct Box {
  Shape from, extent;
  bool operator==(const Box&) const = default;
};

// The shape of the tensor held here, padding included. Throws ConfigError when
// the cut does not divide.
Shape local_shape(Shape logical, Cut cut);

// The rectangle of the logical tensor that the tensor held here begins with, row
// by row; it may be empty. Without padding it is all of it.
Box placement(Shape logical, Cut cut);

// What elements [first, first + count) of a box, row by row, are of the logical tensor: the
// end of a row, whole rows, the beginning of one, where there are such. At most three.
struct BoxOfRun {
  Box box;
  std::int64_t at;  // its first element, counted from the run's
};
std::vector<BoxOfRun> boxes_of_run(const Box& box, std::int64_t first, std::int64_t count);

}  // namespace trireme
