#pragma once
#include <array>

#include "model/tensor/tensor.h"

namespace trireme {

// What an optimizer reads and writes of consecutive weights: flat tensors of count() elements.
struct UpdateTensors {
  static constexpr std::size_t kMaxStates = 2;

  Tensor value = {};   // compute dtype
  Tensor master = {};  // accumulator dtype; `value` itself if that is the compute dtype
  Tensor grad = {};    // accumulator dtype
  // Moments, in the accumulator dtype for ops; empty where the optimizer has fewer.
  std::array<Tensor, kMaxStates> state = {};

  std::int64_t count() const { return value.count(); }
  // The master if it is not `value` itself, otherwise empty: kernels write each tensor once.
  Tensor separate_master() const { return master.data == value.data ? Tensor{} : master; }
};

}  // namespace trireme
