#include "model/params/cut.h"

#include <algorithm>

namespace trireme {

Cut cut_pieces(int dim, std::int64_t pieces, Slice holders) {
  const auto count = static_cast<int>(std::min<std::int64_t>(pieces, holders.count));
  if (count < 1 || pieces % count != 0 || holders.count % count != 0) {
    throw ConfigError(say(pieces, " units cannot be divided evenly among ", holders.count,
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

std::vector<BoxOfRun> boxes_of_run(const Box& box, std::int64_t first, std::int64_t count) {
  if (box.extent.rank() == 1) return {{{{box.from[0] + first}, {count}}, 0}};
  const std::int64_t width = box.extent[1];
  std::vector<BoxOfRun> boxes;
  for (std::int64_t at = 0; at < count;) {
    const std::int64_t row = (first + at) / width, column = (first + at) % width;
    const std::int64_t left = count - at;
    const bool whole_rows = column == 0 && left >= width;
    const std::int64_t rows = whole_rows ? left / width : 1;
    const std::int64_t columns = whole_rows ? width : std::min(left, width - column);
    boxes.push_back({{{box.from[0] + row, box.from[1] + column}, {rows, columns}}, at});
    at += rows * columns;
  }
  return boxes;
}

}  // namespace trireme
