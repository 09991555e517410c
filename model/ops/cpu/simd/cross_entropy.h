#pragma once
#include "model/ops/cpu/simd/isa.h"

namespace trireme::simd {

// Rows of columns [first, first + width) of a vocabulary.
template <class T>
struct LogitRows {
  T* logits = nullptr;
  const Sum<T>* top = nullptr;
  const std::int32_t* targets = nullptr;
  std::int64_t rows = 0, width = 0, first = 0;
};
template <Isa isa, class T>
void row_max(Sum<T>* top, const LogitRows<T>& op);
template <Isa isa, class T>
void row_exp_sum(Sum<T>* total, Sum<T>* target, const LogitRows<T>& op);
template <Isa isa, class T>
void cross_entropy_backward(const LogitRows<T>& op, const Sum<T>* total, double scale);

}  // namespace trireme::simd
