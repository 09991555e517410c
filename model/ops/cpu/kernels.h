#pragma once
#include "model/ops/dispatch.h"
#include "model/tensor/tensor.h"

namespace trireme::ops::cpu {

// A tensor's elements from `first`; null for an absent tensor.
template <class T>
T* at(const Tensor& tensor, std::int64_t first = 0) {
  return tensor ? tensor.as<T>() + first : nullptr;
}

// Minimum number of rows per thread that amortizes its start.
inline std::int64_t row_grain(std::int64_t width) {
  constexpr std::int64_t kElements = 16384;
  return width >= kElements ? 1 : kElements / (width > 0 ? width : 1);
}

}  // namespace trireme::ops::cpu
