#pragma once
#include "model/ops/cpu/simd/update_range.h"

namespace trireme::simd {

struct SgdStep {
  double learning_rate = 0, momentum = 0, decay = 0;
  double into = 1;  // factor of the gradient in the momentum
  bool nesterov = false;
};
template <Isa isa, class T>
void sgd_step(const UpdateRange<T>& op, const SgdStep& how);

struct LionStep {
  double learning_rate = 0, beta1 = 0, beta2 = 0;
  double decay = 0;  // learning rate * weight decay
};
template <Isa isa, class T>
void lion(const UpdateRange<T>& op, const LionStep& how);

}  // namespace trireme::simd
