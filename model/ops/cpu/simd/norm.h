#pragma once
#include "model/ops/cpu/simd/isa.h"
#include "model/ops/norm_kind.h"

namespace trireme::simd {

// Rows of ops::Norm. Null: absent.
template <class T>
struct NormRows {
  NormKind kind;
  T* y = nullptr;
  Sum<T>*mean = nullptr, *inverse = nullptr;
  T* sum = nullptr;
  const T *x = nullptr, *residual = nullptr, *gain = nullptr, *bias = nullptr;
  std::int64_t rows = 0, width = 0;
  double epsilon = 0;
};
template <Isa isa, class T>
void norm(const NormRows<T>& op);
template <Isa isa, class T>
void norm_recompute(const NormRows<T>& op);

template <class T>
struct NormBackwardRows {
  NormKind kind;
  T* dx = nullptr;
  Sum<T>*dgain = nullptr, *dbias = nullptr;  // [width], replaced by the sums over these rows
  const T *dy = nullptr, *x = nullptr, *gain = nullptr, *dresidual = nullptr;
  const Sum<T>*mean = nullptr, *inverse = nullptr;
  std::int64_t rows = 0, width = 0;
};
template <Isa isa, class T>
void norm_backward(const NormBackwardRows<T>& op);

}  // namespace trireme::simd
