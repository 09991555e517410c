#pragma once
#include <span>

#include "model/tensor/tensor.h"

namespace trireme {

// Wraps host numbers in a tensor, for exchange between ranks.
template <class T, std::size_t kExtent>
Tensor host_tensor(std::span<T, kExtent> values) {
  return {reinterpret_cast<std::byte*>(values.data()), DTypeOf<T>::kValue,
          Shape{static_cast<std::int64_t>(values.size())}, Device{}};
}

}  // namespace trireme
