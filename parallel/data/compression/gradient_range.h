#pragma once
#include <cstdint>
#include <vector>

#include "model/params/param_store.h"

namespace trireme {

// A contiguous range of gradients that is summed as one, and its contents.
struct GradientRange {
  struct Matrix {
    std::int64_t first = 0;  // offset of its first element in the range
    std::int64_t rows = 0, width = 0;
    std::int64_t count() const { return rows * width; }
  };
  struct Run {
    std::int64_t first = 0, count = 0;
  };
  Tensor gradients;               // [count] float32 or float64
  std::vector<Matrix> matrices;   // in order, not overlapping; the rest of the range is vectors
  std::vector<Run> padding = {};  // zeros that belong to no parameter and that no backward writes
};

// Describes the contents of `gradients` [count], which holds elements [first, first + count) of the
// store's flat buffers. A matrix that crosses the boundary of the range is listed with its complete
// rows. The store is allocated.
GradientRange gradient_range(const ParamStore& store, std::int64_t first, Tensor gradients);

// Calls body with a float* or double* to the tensor's first element.
template <class Body>
void with_elements(const Tensor& tensor, const Body& body) {
  if (tensor.dtype == DType::kF64) {
    body(tensor.as<double>());
  } else {
    body(tensor.as<float>());
  }
}

}  // namespace trireme
