#include "model/ops/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#define HWY_TARGET_INCLUDE "model/ops/cpu/optimizer.cpp"
#include "model/ops/cpu/simd/targets.h"
// Below, once per target.
#include "model/ops/cpu/over_update.h"
#include "model/ops/cpu/simd/adamw.h"
#include "model/ops/cpu/simd/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::cpu {
namespace HWY_NAMESPACE {
namespace {

void adamw(const UpdateTensors& tensors, Tensor grad_scale, const AdamW& how) {
  const AdamWStep step = step_of(how);
  over_update(tensors, grad_scale,
              [&]<class T>(const UpdateRange<T>& range) { adamw_range(range, step); });
}

void add_chunk_squares(Tensor partials, Tensor x, std::int64_t into, std::int64_t size) {
  const std::int64_t count = x.count();
  double* const squares = partials.as<double>();
  with_float(x.dtype, [&]<class T>(T) {
    trireme::cpu::parallel_for(partials.count(), 16, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t chunk = from; chunk < to; ++chunk) {
        const std::int64_t first = std::max<std::int64_t>(chunk * size - into, 0);
        const std::int64_t end = std::min((chunk + 1) * size - into, count);
        squares[chunk] += sum_of_squares(at<T>(x, first), end - first);
      }
    });
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace trireme::ops::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::cpu {

HWY_EXPORT(adamw);
HWY_EXPORT(add_chunk_squares);

void adamw(Stream&, const UpdateTensors& tensors, Tensor grad_scale, const AdamW& how) {
  HWY_DYNAMIC_DISPATCH(adamw)(tensors, grad_scale, how);
}
void add_chunk_squares(Stream&, Tensor partials, Tensor x, std::int64_t into, std::int64_t chunk) {
  HWY_DYNAMIC_DISPATCH(add_chunk_squares)(partials, x, into, chunk);
}

void clip_scale(Stream&, Tensor norm, Tensor scale, Tensor partials, const Clip& how) {
  double squares = 0;
  for (std::int64_t first = 0; first < partials.count(); first += kNormGroup) {
    const double* const group = partials.as<double>() + first;
    squares += std::accumulate(group, group + std::min(kNormGroup, partials.count() - first), 0.0);
  }
  const double length = std::sqrt(squares) / how.loss_scale;
  const double factor = how.max_norm == 0 || length <= how.max_norm ? 1 : how.max_norm / length;
  with_float(norm.dtype, [&](auto zero) {
    using A = decltype(zero);
    if constexpr (kIsAccumulator<A>) {
      const A rounded = static_cast<A>(length);  // the value that the host reads
      *norm.as<A>() = rounded;
      *scale.as<A>() = std::isfinite(rounded) && rounded <= how.limit
                           ? static_cast<A>(factor / how.loss_scale)
                           : std::numeric_limits<A>::quiet_NaN();
    }
  });
}

}  // namespace trireme::ops::cpu
#endif
