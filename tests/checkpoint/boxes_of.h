#pragma once
#include <vector>

#include "model/params/cut.h"

namespace trireme::checkpoint {

// Appends range [first, last) of the tensor `shape` whose first `fixed` coordinates are those of
// `at`.
inline void append_boxes(std::vector<Box>& boxes, std::int64_t first, std::int64_t last,
                         Shape shape, int fixed, Shape at) {
  if (first >= last) return;
  std::int64_t stride = 1;
  for (int dim = fixed + 1; dim < shape.rank(); ++dim) stride *= shape[dim];

  const auto inside = [&](std::int64_t index, std::int64_t from, std::int64_t to) {
    at[fixed] = index;
    append_boxes(boxes, from, to, shape, fixed + 1, at);
  };
  const std::int64_t whole_from = (first + stride - 1) / stride;
  const std::int64_t whole_to = last / stride;
  if (whole_from > whole_to) return inside(first / stride, first % stride, last % stride);

  if (first % stride) inside(first / stride, first % stride, stride);
  if (whole_from < whole_to) {
    Box box{at, shape};
    for (int dim = 0; dim < fixed; ++dim) box.extent[dim] = 1;
    for (int dim = fixed + 1; dim < shape.rank(); ++dim) box.from[dim] = 0;
    box.from[fixed] = whole_from;
    box.extent[fixed] = whole_to - whole_from;
    boxes.push_back(box);
  }
  if (last % stride) inside(last / stride, 0, last % stride);
}

// Splits elements [first, first + count) of a row-major tensor into at most 2 rank - 1 boxes, in
// order.
inline std::vector<Box> boxes_of(std::int64_t first, std::int64_t count, Shape shape) {
  require(first >= 0 && count >= 0 && first + count <= shape.count(), "run [", first, ", ",
          first + count, ") of a tensor of shape ", shape);
  std::vector<Box> boxes;
  if (shape.rank() > 0) append_boxes(boxes, first, first + count, shape, 0, shape);
  return boxes;
}

}  // namespace trireme::checkpoint
