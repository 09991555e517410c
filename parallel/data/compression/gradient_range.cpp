#include "parallel/data/compression/gradient_range.h"

#include <algorithm>

namespace trireme {

GradientRange gradient_range(const ParamStore& store, std::int64_t first, Tensor gradients) {
  GradientRange range{gradients, {}, {}};
  std::vector<GradientRange::Run> held;
  const auto add = [&](const Weight& weight) {
    for (const Param& param : weight.parts) {
      const Shape shape = local_shape(param.spec.shape, param.spec.cut);
      const std::int64_t from = std::max(first - param.offset, std::int64_t{0});
      const std::int64_t to = std::min(first + gradients.count() - param.offset, shape.count());
      if (to <= from) continue;
      held.push_back({param.offset + from - first, to - from});
      if (shape.rank() < 2) continue;
      const std::int64_t width = shape[shape.rank() - 1];
      const std::int64_t first_row = (from + width - 1) / width;
      const std::int64_t rows = to / width - first_row;
      if (rows <= 0) continue;
      range.matrices.push_back({param.offset + first_row * width - first, rows, width});
    }
  };
  for (const Weight& weight : store.weights()) add(weight);
  for (const ParamStore::Apart& apart : store.apart()) add(apart.weight);
  const auto in_order = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::sort(range.matrices.begin(), range.matrices.end(), in_order);
  std::sort(held.begin(), held.end(), in_order);
  held.push_back({gradients.count(), 0});
  std::int64_t end = 0;
  for (const GradientRange::Run& run : held) {
    if (run.first > end) range.padding.push_back({end, run.first - end});
    end = run.first + run.count;
  }
  return range;
}

}  // namespace trireme
