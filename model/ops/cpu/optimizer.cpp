#include "model/ops/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/adamw.h"
#include "model/ops/cpu/kernels.h"
#include "model/ops/cpu/over_update.h"
#include "model/ops/cpu/simd/elementwise.h"

namespace trireme::ops::cpu {

using simd::Isa;
using trireme::cpu::parallel_for;

void add_chunk_squares(Stream&, Tensor partials, Tensor x, std::int64_t into) {
  const std::int64_t count = x.count();
  double* const squares = partials.as<double>();
  with_kernels(x.dtype, [&]<Isa isa, class T>() {
    parallel_for(partials.count(), 16, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t chunk = from; chunk < to; ++chunk) {
        const std::int64_t first = std::max<std::int64_t>(chunk * kNormChunk - into, 0);
        const std::int64_t end = std::min((chunk + 1) * kNormChunk - into, count);
        squares[chunk] += simd::sum_of_squares<isa, T>(at<T>(x, first), end - first);
      }
    });
  });
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

void adamw(Stream&, const UpdateTensors& tensors, Tensor grad_scale, const AdamW& how) {
  const simd::AdamWStep step = step_of(how);
  over_update(tensors, grad_scale, [&]<Isa isa, class T>(const simd::UpdateRange<T>& range) {
    simd::adamw<isa, T>(range, step);
  });
}

}  // namespace trireme::ops::cpu
