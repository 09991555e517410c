#include "model/ops/cpu/momentum.h"

#include <cmath>

#include "model/device/cpu/threads.h"
#include "model/ops/cpu/kernels.h"
#include "model/ops/cpu/simd/momentum.h"

namespace trireme::ops::cpu {
namespace {

using simd::Isa;
using simd::Sum;
using trireme::cpu::parallel_for;

// Calls body.operator()<isa, T>(range) for ranges of the flat tensors, unless the step is skipped.
template <class Body>
void over_parts(const MomentumState& state, const Body& body) {
  with_kernels(state.value.dtype, [&]<Isa isa, class T>() {
    using A = Sum<T>;
    const double grad_scale = *at<A>(state.grad_scale);
    if (std::isnan(grad_scale)) return;
    const double rate = state.rate ? *at<A>(state.rate) : 1;
    parallel_for(state.value.count(), 8192, [&](std::int64_t first, std::int64_t last) {
      body.template operator()<isa, T>(
          simd::MomentumRange<T>{.value = at<T>(state.value, first),
                                 .master = at<A>(state.master, first),
                                 .momentum = at<A>(state.momentum, first),
                                 .grad = at<A>(state.grad, first),
                                 .count = last - first,
                                 .grad_scale = grad_scale},
          rate);
    });
  });
}

}  // namespace

void sgd_step(Stream&, const MomentumState& state, const Momentum& how) {
  over_parts(state, [&]<Isa isa, class T>(const simd::MomentumRange<T>& range, double rate) {
    simd::sgd_step<isa, T>(range, {.learning_rate = how.learning_rate,
                                   .momentum = how.momentum,
                                   .decay = how.weight_decay,
                                   .into = how.into * rate,
                                   .nesterov = how.nesterov});
  });
}

void lion(Stream&, const MomentumState& state, const Lion& how) {
  over_parts(state, [&]<Isa isa, class T>(const simd::MomentumRange<T>& range, double) {
    simd::lion<isa, T>(range, {.learning_rate = how.learning_rate,
                               .beta1 = how.beta1,
                               .beta2 = how.beta2,
                               .decay = how.learning_rate * how.weight_decay});
  });
}

}  // namespace trireme::ops::cpu
