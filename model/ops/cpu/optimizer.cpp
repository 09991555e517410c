#include "model/ops/cpu/optimizer.h"

#include <cmath>
#include <limits>

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/kernels.h"
#include "model/ops/cpu/simd/elementwise.h"
#include "model/ops/cpu/simd/optimizer.h"

namespace trireme::ops::cpu {

using simd::Isa;
using simd::Sum;
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
  for (std::int64_t i = 0; i < partials.count(); ++i) squares += partials.as<double>()[i];
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

void adamw(Stream&, const AdamWState& state, const AdamW& how) {
  const double steps = static_cast<double>(how.step);
  with_kernels(state.value.dtype, [&]<Isa isa, class T>() {
    using A = Sum<T>;
    const double grad_scale = *at<A>(state.grad_scale);
    if (std::isnan(grad_scale)) return;
    parallel_for(state.value.count(), 8192, [&](std::int64_t first, std::int64_t last) {
      simd::adamw<isa, T>({.value = at<T>(state.value, first),
                           .master = at<A>(state.master, first),
                           .m = at<A>(state.m, first),
                           .v = at<A>(state.v, first),
                           .grad = at<A>(state.grad, first),
                           .count = last - first,
                           .grad_scale = grad_scale,
                           .beta1 = how.beta1,
                           .beta2 = how.beta2,
                           .epsilon = how.epsilon,
                           .step_size = how.learning_rate / (1 - std::pow(how.beta1, steps)),
                           .inverse_root = 1 / std::sqrt(1 - std::pow(how.beta2, steps)),
                           .decay = how.learning_rate * how.weight_decay});
    });
  });
}

}  // namespace trireme::ops::cpu
