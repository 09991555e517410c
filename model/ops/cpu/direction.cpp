#include "model/ops/direction.h"

#include <cmath>

#include "model/ops/cpu/over_update.h"
#include "model/ops/cpu/simd/direction.h"

namespace trireme::ops::cpu {
namespace {

using simd::Isa;
using simd::Sum;

double number(const Tensor& tensor) {
  if (!tensor) return 1;
  return tensor.dtype == DType::kF64 ? *tensor.as<double>() : *tensor.as<float>();
}

}  // namespace

void adam_direction(Stream&, const UpdateTensors& tensors, Tensor grad_scale,
                    const AdamDirection& how) {
  const double steps = static_cast<double>(how.step);
  const simd::AdamDirectionStep step{.beta1 = how.beta1,
                                     .beta2 = how.beta2,
                                     .epsilon = how.epsilon,
                                     .correction = 1 / (1 - std::pow(how.beta1, steps)),
                                     .inverse_root = 1 / std::sqrt(1 - std::pow(how.beta2, steps)),
                                     .decay = how.weight_decay};
  over_update(tensors, grad_scale, [&]<Isa isa, class T>(const simd::UpdateRange<T>& range) {
    simd::adam_direction<isa, T>(range, step);
  });
}

void momentum_direction(Stream&, const UpdateTensors& tensors, Tensor grad_scale, double beta,
                        bool nesterov) {
  over_update(tensors, grad_scale, [&]<Isa isa, class T>(const simd::UpdateRange<T>& range) {
    simd::momentum_direction<isa, T>(range, beta, nesterov);
  });
}

void apply_direction(Stream&, const UpdateTensors& tensors, Tensor grad_scale,
                     const DirectionStep& how) {
  const double step = how.rate * number(how.ratio);
  over_update(tensors, grad_scale, [&]<Isa isa, class T>(const simd::UpdateRange<T>& range) {
    simd::apply_direction<isa, T>(range, step, how.decay);
  });
}

void axpby(Stream&, Tensor y, Tensor x, const Axpby& how) {
  const double alpha = how.alpha * number(how.factor);
  with_kernels(y.dtype, [&]<Isa isa, class A>() {
    if constexpr (std::is_same_v<A, Sum<A>>) {
      trireme::cpu::parallel_for(y.count(), 8192, [&](std::int64_t first, std::int64_t last) {
        simd::axpby<isa, A>(at<A>(y, first), at<A>(x, first), last - first, alpha, how.beta);
      });
    }
  });
}

}  // namespace trireme::ops::cpu
