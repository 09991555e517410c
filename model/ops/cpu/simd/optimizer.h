#pragma once
#include "model/ops/cpu/simd/update_range.h"

namespace trireme::simd {

struct AdamWStep {
  double beta1 = 0, beta2 = 0, epsilon = 0;
  double step_size = 0;     // learning rate / (1 - beta1^step)
  double inverse_root = 1;  // 1 / sqrt(1 - beta2^step)
  double decay = 0;         // learning rate * weight decay
};
template <Isa isa, class T>
void adamw(const UpdateRange<T>& op, const AdamWStep& how);

}  // namespace trireme::simd
