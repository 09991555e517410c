#pragma once
#include <optional>
#include <span>
#include <vector>

#include "model/params/cut.h"

namespace trireme::checkpoint {

std::optional<Box> intersection(const Box& a, const Box& b);

inline Box all_of(Shape shape) {
  return placement(shape, {});
}

// Whether the boxes cover every element of `shape` exactly once. Exact, in O(n log n), for any
// boxes inside the shape.
bool tile_exactly(std::span<const Box> boxes, Shape shape);

// Calls visit(offset in a, offset in b, count), in elements, for the longest ranges of `part` that
// are contiguous in the row-major packing of both `a` and `b`, in ascending order. `part` is inside
// both and not empty.
template <class Visit>
void for_each_run(const Box& part, const Box& a, const Box& b, Visit visit) {
  const int rank = part.extent.rank();
  int inner = rank;  // dimensions from here on are whole in both: one range spans them
  while (inner > 0 && part.extent[inner - 1] == a.extent[inner - 1] &&
         part.extent[inner - 1] == b.extent[inner - 1]) {
    --inner;
  }
  const int last = inner > 0 ? inner - 1 : 0;  // the range also extends along this dimension
  std::int64_t run = 1;
  for (int dim = last; dim < rank; ++dim) run *= part.extent[dim];
  Shape at = part.from;
  while (true) {
    std::int64_t in_a = 0;
    std::int64_t in_b = 0;
    for (int dim = 0; dim < rank; ++dim) {
      in_a = in_a * a.extent[dim] + at[dim] - a.from[dim];
      in_b = in_b * b.extent[dim] + at[dim] - b.from[dim];
    }
    visit(in_a, in_b, run);
    int dim = last - 1;
    for (; dim >= 0; --dim) {
      if (++at[dim] < part.from[dim] + part.extent[dim]) break;
      at[dim] = part.from[dim];
    }
    if (dim < 0) return;
  }
}

}  // namespace trireme::checkpoint
