#pragma once
#include <cstdint>
#include <vector>

#include "model/params/param_store.h"

namespace trireme {

// A flat run of gradients that is summed as one, and the matrices that lie in it.
struct GradientRange {
  struct Matrix {
    std::int64_t first = 0;  // its first element's place in the run
    std::int64_t rows = 0, width = 0;
    std::int64_t count() const { return rows * width; }
  };
  Tensor gradients;              // [count] float32 or float64
  std::vector<Matrix> matrices;  // in order and apart; the rest of the run are vectors
};

// What lies in `gradients`, [count]: elements [first, first + count) of the store's flat
// buffers, wherever they are. A matrix that the run cuts through is there with the rows the
// run holds whole. The store is allocated.
GradientRange gradient_range(const ParamStore& store, std::int64_t first, Tensor gradients);

// Calls body with the first of the tensor's elements, a float* or a double*.
template <class Body>
void with_elements(const Tensor& tensor, const Body& body) {
  if (tensor.dtype == DType::kF64) {
    body(tensor.as<double>());
  } else {
    body(tensor.as<float>());
  }
}

}  // namespace trireme
