#pragma once
#include "model/tensor/arena.h"

namespace trireme {

// Approximates the nearest orthogonal matrix by a quintic Newton-Schulz iteration that brings every
// singular value near 1, with the published coefficients (Jordan et al., "Muon: An optimizer for
// hidden layers in neural networks", 2024). Matrix products only.
class Orthogonaliser {
 public:
  // Allocates workspace for matrices of at most `most` elements whose smaller side is at most
  // `side`.
  Orthogonaliser(std::int64_t most, std::int64_t side, DType dtype, Arena& workspace);

  // Input buffer of run() for a matrix of `count` elements.
  Tensor matrix(std::int64_t count) const { return x_.slice(0, count); }
  // Orthogonalizes the matrix [rows, columns] in the input buffer; the result is valid until the
  // buffer is written again.
  Tensor run(Stream& stream, std::int64_t rows, std::int64_t columns, std::int64_t steps) const;

 private:
  Tensor x_, y_;              // [most]
  Tensor gram_, polynomial_;  // [side * side]
  Tensor squares_;            // [chunks] float64
  Tensor inverse_;            // [1]
};

}  // namespace trireme
