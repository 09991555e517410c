#pragma once
#include "model/tensor/arena.h"

namespace trireme {

// The nearest orthogonal matrix, roughly: a quintic Newton-Schulz iteration that brings every
// singular value near 1 (Jordan et al., "Muon: An optimizer for hidden layers in neural
// networks", 2024), with its published coefficients, by matrix products alone.
class Orthogonaliser {
 public:
  // Takes memory for matrices of at most `most` elements whose smaller side is at most `side`.
  Orthogonaliser(std::int64_t most, std::int64_t side, DType dtype, Arena& workspace);

  // Where a matrix of `count` elements goes before run().
  Tensor matrix(std::int64_t count) const { return x_.slice(0, count); }
  // Of the matrix [rows, columns] there; good until the next one is put in.
  Tensor run(Stream& stream, std::int64_t rows, std::int64_t columns, std::int64_t steps) const;

 private:
  Tensor x_, y_;              // [most]
  Tensor gram_, polynomial_;  // [side * side]
  Tensor squares_;            // [chunks] float64
  Tensor inverse_;            // [1]
};

}  // namespace trireme
