#pragma once
#include "model/ops/cpu/simd/isa.h"

namespace trireme::simd {

// The elements of UpdateTensors, as kernels read and write them.
template <class T>
struct UpdateRange {
  T* value = nullptr;
  Sum<T>* master = nullptr;  // null: `value` is the master
  Sum<T>* grad = nullptr;
  Sum<T>*m = nullptr, *v = nullptr;  // first and second state
  std::int64_t count = 0;
  double grad_scale = 1;
};

}  // namespace trireme::simd
