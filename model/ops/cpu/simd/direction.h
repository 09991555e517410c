#pragma once
#include "model/ops/cpu/simd/isa.h"

namespace trireme::simd {

template <class A>
struct AdamDirectionRange {
  const A* weight = nullptr;
  A *m = nullptr, *v = nullptr, *grad = nullptr;
  std::int64_t count = 0;
  double grad_scale = 1, beta1 = 0, beta2 = 0, epsilon = 0;
  double correction = 1;    // 1 / (1 - beta1^step)
  double inverse_root = 1;  // 1 / sqrt(1 - beta2^step)
  double decay = 0;
};
template <Isa isa, class A>
void adam_direction(const AdamDirectionRange<A>& op);

template <class A>
struct MomentumDirectionRange {
  A *momentum = nullptr, *grad = nullptr;
  std::int64_t count = 0;
  double grad_scale = 1, beta = 0;
  bool nesterov = false;
};
template <Isa isa, class A>
void momentum_direction(const MomentumDirectionRange<A>& op);

template <class T>
struct DirectionRange {
  T* value = nullptr;
  Sum<T>* master = nullptr;  // null: `value` is the master
  const Sum<T>* direction = nullptr;
  std::int64_t count = 0;
  double step = 0, decay = 0;
};
template <Isa isa, class T>
void apply_direction(const DirectionRange<T>& op);

template <Isa isa, class A>
void axpby(A* y, const A* x, std::int64_t count, double alpha, double beta);

}  // namespace trireme::simd
