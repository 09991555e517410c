#include "checkpoint/format/boxes.h"

#include <algorithm>
#include <array>
#include <utility>

namespace trireme::checkpoint {
namespace {

using Corner = std::pair<std::array<std::int64_t, Shape::kMaxRank>, int>;

// The mixed difference of a box's indicator function: its signed corners.
void append_corners(std::vector<Corner>& corners, const Box& box, int sign) {
  const int rank = box.extent.rank();
  for (unsigned mask = 0; mask < 1u << rank; ++mask) {
    Corner corner{{}, sign};
    for (int dim = 0; dim < rank; ++dim) {
      const bool far = mask >> dim & 1u;
      corner.first[static_cast<std::size_t>(dim)] = box.from[dim] + (far ? box.extent[dim] : 0);
      if (far) corner.second = -corner.second;
    }
    corners.push_back(corner);
  }
}

}  // namespace

std::optional<Box> intersection(const Box& a, const Box& b) {
  Box both = a;
  for (int dim = 0; dim < a.from.rank(); ++dim) {
    both.from[dim] = std::max(a.from[dim], b.from[dim]);
    both.extent[dim] =
        std::min(a.from[dim] + a.extent[dim], b.from[dim] + b.extent[dim]) - both.from[dim];
    if (both.extent[dim] <= 0) return std::nullopt;
  }
  return both;
}

// A function of finite support is determined by its mixed difference, so the boxes tile the whole
// if and only if their signed corners add up to the whole's.
bool tile_exactly(std::span<const Box> boxes, Shape shape) {
  std::vector<Corner> corners;
  corners.reserve((boxes.size() + 1) << shape.rank());
  for (const Box& box : boxes) append_corners(corners, box, 1);
  append_corners(corners, all_of(shape), -1);
  std::sort(corners.begin(), corners.end());
  for (std::size_t i = 0; i < corners.size();) {
    std::int64_t sum = 0;
    const auto& place = corners[i].first;
    for (; i < corners.size() && corners[i].first == place; ++i) sum += corners[i].second;
    if (sum != 0) return false;
  }
  return true;
}

}  // namespace trireme::checkpoint
