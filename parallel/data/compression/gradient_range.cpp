#include "parallel/data/compression/gradient_range.h"

#include <algorithm>

namespace trireme {

GradientRange gradient_range(const ParamStore& store, std::int64_t first, Tensor gradients) {
  GradientRange range{gradients, {}};
  const auto add = [&](const Weight& weight) {
    for (const Param& param : weight.parts) {
      const Shape shape = local_shape(param.spec.shape, param.spec.cut);
      if (shape.rank() < 2 || shape.count() == 0) continue;
      const std::int64_t width = shape[shape.rank() - 1];
      const std::int64_t from = std::max(first - param.offset, std::int64_t{0});
      const std::int64_t to = std::min(first + gradients.count() - param.offset, shape.count());
      const std::int64_t first_row = (from + width - 1) / width;
      const std::int64_t rows = to / width - first_row;
      if (to <= from || rows <= 0) continue;
      range.matrices.push_back({param.offset + first_row * width - first, rows, width});
    }
  };
  for (const Weight& weight : store.weights()) add(weight);
  for (const ParamStore::Apart& apart : store.apart()) add(apart.weight);
  std::sort(range.matrices.begin(), range.matrices.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  return range;
}

}  // namespace trireme
