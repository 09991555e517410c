#pragma once
#include "model/tensor/tensor.h"

namespace trireme {

// A tensor that a float8 product may read, with the magnitudes that the op which wrote it collected
// (ops/float8.h); without them the product's quantization passes over the tensor for the largest.
struct MeasuredTensor {
  MeasuredTensor() = default;
  MeasuredTensor(Tensor of, Tensor largest = {})  // NOLINT(google-explicit-constructor)
      : values(of), magnitudes(largest) {}
  Tensor values, magnitudes;
};

}  // namespace trireme
