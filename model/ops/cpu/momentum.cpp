#include "model/ops/momentum.h"

#include "model/ops/cpu/over_update.h"
#include "model/ops/cpu/simd/momentum.h"

namespace trireme::ops::cpu {

using simd::Isa;

void sgd_step(Stream&, const UpdateTensors& tensors, Tensor grad_scale, const Momentum& how) {
  over_update(tensors, grad_scale, [&]<Isa isa, class T>(const simd::UpdateRange<T>& range) {
    const double rate = how.rate ? *at<simd::Sum<T>>(how.rate) : 1;
    simd::sgd_step<isa, T>(range, {.learning_rate = how.learning_rate,
                                   .momentum = how.momentum,
                                   .decay = how.weight_decay,
                                   .into = how.into * rate,
                                   .nesterov = how.nesterov});
  });
}

void lion(Stream&, const UpdateTensors& tensors, Tensor grad_scale, const Lion& how) {
  over_update(tensors, grad_scale, [&]<Isa isa, class T>(const simd::UpdateRange<T>& range) {
    simd::lion<isa, T>(range, {.learning_rate = how.learning_rate,
                               .beta1 = how.beta1,
                               .beta2 = how.beta2,
                               .decay = how.learning_rate * how.weight_decay});
  });
}

}  // namespace trireme::ops::cpu
