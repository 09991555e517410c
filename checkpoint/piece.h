#pragma once
#include <cstddef>
#include <string>

#include "model/params/cut.h"

namespace trireme::checkpoint {

// One rectangle of a logical tensor in host memory that the caller owns: what a
// rank gives to be stored, or wants filled. `data` is the rectangle alone,
// contiguous and row-major.
//
// A name is one to four parts of [A-Za-z0-9_.-] joined by '/', such as
// "model/layers.0.mlp.up.weight" or "adam.m/layers.0.mlp.up.weight"; the parts
// before the last become groups in HDF5.
struct Piece {
  std::string tensor;
  DType dtype = DType::kF32;
  Shape shape;  // of the logical tensor
  Box box;      // which part of it
  std::byte* data = nullptr;

  std::size_t bytes() const {
    return static_cast<std::size_t>(box.extent.count()) * size_of(dtype);
  }
};

// The piece that is all of a logical tensor.
inline Piece whole_piece(std::string name, const Tensor& tensor) {
  return {std::move(name), tensor.dtype, tensor.shape, placement(tensor.shape, {}), tensor.data};
}

}  // namespace trireme::checkpoint
