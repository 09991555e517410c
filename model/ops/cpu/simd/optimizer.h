#pragma once
#include "model/ops/cpu/simd/isa.h"

namespace trireme::simd {

template <class T>
struct AdamWRange {
  T* value = nullptr;
  Sum<T>* master = nullptr;  // null: `value` is the master
  Sum<T>*m = nullptr, *v = nullptr;
  const Sum<T>* grad = nullptr;
  std::int64_t count = 0;
  double grad_scale = 1, beta1 = 0, beta2 = 0, epsilon = 0;
  double step_size = 0;     // learning rate / (1 - beta1^step)
  double inverse_root = 1;  // 1 / sqrt(1 - beta2^step)
  double decay = 0;         // learning rate * weight decay
};
template <Isa isa, class T>
void adamw(const AdamWRange<T>& op);

}  // namespace trireme::simd
