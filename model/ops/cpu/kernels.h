#pragma once
#include <type_traits>

#include "model/ops/cpu/simd/isa.h"
#include "model/ops/dispatch.h"
#include "model/tensor/tensor.h"

namespace trireme::ops::cpu {

// The element type that kernels use for tensors of Value.
template <class Value>
using Seen =
    std::conditional_t<std::is_same_v<Value, Bf16>, simd::Bf16Bits,
                       std::conditional_t<std::is_same_v<Value, F16>, simd::F16Bits, Value>>;

// Calls body.operator()<isa, T>() for the selected instruction set and the kernels' element type
// for `dtype`: float, double, Bf16Bits or F16Bits.
template <class Body>
void with_kernels(DType dtype, const Body& body) {
  with_float(dtype, [&](auto zero) {
    using Value = decltype(zero);
    using T = Seen<Value>;
    simd::with_isa([&]<simd::Isa isa>() { body.template operator()<isa, T>(); });
  });
}

// A tensor's data as a kernel's element type; null for an absent tensor.
template <class T>
T* at(const Tensor& tensor, std::int64_t first = 0) {
  if (!tensor) return nullptr;
  if constexpr (std::is_same_v<T, simd::Bf16Bits>) {
    return reinterpret_cast<T*>(tensor.as<Bf16>()) + first;
  } else if constexpr (std::is_same_v<T, simd::F16Bits>) {
    return reinterpret_cast<T*>(tensor.as<F16>()) + first;
  } else {
    return tensor.as<T>() + first;
  }
}

// Minimum number of rows per thread that amortizes its start.
inline std::int64_t row_grain(std::int64_t width) {
  constexpr std::int64_t kElements = 16384;
  return width >= kElements ? 1 : kElements / (width > 0 ? width : 1);
}

}  // namespace trireme::ops::cpu
