#pragma once
#include "model/ops/cpu/simd/isa.h"

namespace trireme::simd {

template <Isa isa, class T>
void gelu(T* y, const T* x, std::int64_t count);
template <Isa isa, class T>
void gelu_backward(T* dx, const T* dy, const T* x, std::int64_t count);

// Each row has gate and up, `width` elements each.
template <Isa isa, class T>
void swiglu(T* y, const T* x, std::int64_t rows, std::int64_t width);
template <Isa isa, class T>
void swiglu_backward(T* dx, const T* dy, const T* x, std::int64_t rows, std::int64_t width);

}  // namespace trireme::simd
