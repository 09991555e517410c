#pragma once
#include "model/ops/cpu/simd/update_range.h"

namespace trireme::simd {

struct AdamDirectionStep {
  double beta1 = 0, beta2 = 0, epsilon = 0;
  double correction = 1;    // 1 / (1 - beta1^step)
  double inverse_root = 1;  // 1 / sqrt(1 - beta2^step)
  double decay = 0;
};
template <Isa isa, class T>
void adam_direction(const UpdateRange<T>& op, const AdamDirectionStep& how);

template <Isa isa, class T>
void momentum_direction(const UpdateRange<T>& op, double beta, bool nesterov);

// The direction is the range's gradient.
template <Isa isa, class T>
void apply_direction(const UpdateRange<T>& op, double step, double decay);

template <Isa isa, class A>
void axpby(A* y, const A* x, std::int64_t count, double alpha, double beta);

}  // namespace trireme::simd
