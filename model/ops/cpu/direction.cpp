#include "model/ops/cpu/direction.h"

#include <cmath>

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/kernels.h"
#include "model/ops/cpu/simd/direction.h"

namespace trireme::ops::cpu {
namespace {

using simd::Isa;
using simd::Sum;
using trireme::cpu::parallel_for;

constexpr std::int64_t kDirectionGrain = 8192;

// Calls body.operator()<isa, A>(first, last) for ranges of `count` elements of an accumulator
// dtype.
template <class Body>
void over_parts(DType dtype, std::int64_t count, const Body& body) {
  with_kernels(dtype, [&]<Isa isa, class A>() {
    if constexpr (std::is_same_v<A, Sum<A>>) {
      parallel_for(count, kDirectionGrain, [&](std::int64_t first, std::int64_t last) {
        body.template operator()<isa, A>(first, last);
      });
    }
  });
}

double number(const Tensor& tensor) {
  if (!tensor) return 1;
  return tensor.dtype == DType::kF64 ? *tensor.as<double>() : *tensor.as<float>();
}

}  // namespace

void adam_direction(Stream&, const AdamDirectionState& state, const AdamDirection& how) {
  const double grad_scale = number(state.grad_scale), steps = static_cast<double>(how.step);
  if (std::isnan(grad_scale)) return;
  over_parts(
      state.grad.dtype, state.grad.count(),
      [&]<Isa isa, class A>(std::int64_t first, std::int64_t last) {
        simd::adam_direction<isa, A>({.weight = at<A>(state.weight, first),
                                      .m = at<A>(state.m, first),
                                      .v = at<A>(state.v, first),
                                      .grad = at<A>(state.grad, first),
                                      .count = last - first,
                                      .grad_scale = grad_scale,
                                      .beta1 = how.beta1,
                                      .beta2 = how.beta2,
                                      .epsilon = how.epsilon,
                                      .correction = 1 / (1 - std::pow(how.beta1, steps)),
                                      .inverse_root = 1 / std::sqrt(1 - std::pow(how.beta2, steps)),
                                      .decay = how.weight_decay});
      });
}

void momentum_direction(Stream&, Tensor momentum, Tensor grad, Tensor grad_scale, double beta,
                        bool nesterov) {
  const double scale = number(grad_scale);
  if (std::isnan(scale)) return;
  over_parts(grad.dtype, grad.count(),
             [&]<Isa isa, class A>(std::int64_t first, std::int64_t last) {
               simd::momentum_direction<isa, A>({.momentum = at<A>(momentum, first),
                                                 .grad = at<A>(grad, first),
                                                 .count = last - first,
                                                 .grad_scale = scale,
                                                 .beta = beta,
                                                 .nesterov = nesterov});
             });
}

void apply_direction(Stream&, const DirectionState& state, double rate, double decay) {
  if (std::isnan(number(state.grad_scale))) return;
  const double step = rate * number(state.ratio);
  with_kernels(state.value.dtype, [&]<Isa isa, class T>() {
    using A = Sum<T>;
    parallel_for(state.value.count(), kDirectionGrain, [&](std::int64_t first, std::int64_t last) {
      simd::apply_direction<isa, T>({.value = at<T>(state.value, first),
                                     .master = at<A>(state.master, first),
                                     .direction = at<A>(state.direction, first),
                                     .count = last - first,
                                     .step = step,
                                     .decay = decay});
    });
  });
}

void axpby(Stream&, Tensor y, Tensor x, const Axpby& how) {
  const double alpha = how.alpha * number(how.factor);
  over_parts(y.dtype, y.count(), [&]<Isa isa, class A>(std::int64_t first, std::int64_t last) {
    simd::axpby<isa, A>(at<A>(y, first), at<A>(x, first), last - first, alpha, how.beta);
  });
}

}  // namespace trireme::ops::cpu
