#pragma once
#include "model/ops/cpu/simd/isa.h"

namespace trireme::simd {

template <class T>
struct MomentumRange {
  T* value = nullptr;
  Sum<T>* master = nullptr;  // null: `value` is the master
  Sum<T>* momentum = nullptr;
  const Sum<T>* grad = nullptr;
  std::int64_t count = 0;
  double grad_scale = 1;
};

struct SgdStep {
  double learning_rate = 0, momentum = 0, decay = 0;
  double into = 1;  // factor of the gradient in the momentum
  bool nesterov = false;
};
template <Isa isa, class T>
void sgd_step(const MomentumRange<T>& op, const SgdStep& how);

struct LionStep {
  double learning_rate = 0, beta1 = 0, beta2 = 0;
  double decay = 0;  // learning rate * weight decay
};
template <Isa isa, class T>
void lion(const MomentumRange<T>& op, const LionStep& how);

}  // namespace trireme::simd
