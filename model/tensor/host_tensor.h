#pragma once
#include <span>

#include "model/tensor/tensor.h"

namespace trireme {

// Numbers of the host's as a tensor, for an exchange between ranks.
template <class T, std::size_t kExtent>
Tensor host_tensor(std::span<T, kExtent> values) {
  return {reinterpret_cast<std::byte*>(values.data()), DTypeOf<T>::kValue,
          Shape{static_cast<std::int64_t>(values.size())}, Device{}};
}

}  // namespace trireme
