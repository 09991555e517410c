#pragma once
#include <cstddef>
#include <string>

#include "model/params/cut.h"

namespace trireme::checkpoint {

// One box of a logical tensor in host memory that the caller owns: what a rank stores or loads.
// `data` is the packed box, contiguous and row-major.
//
// A name is one to four components of [A-Za-z0-9_.-] joined by '/', such as
// "model/layers.0.mlp.up.weight" or "adam.m/layers.0.mlp.up.weight"; all components but the last
// become HDF5 groups.
struct Piece {
  std::string tensor;
  DType dtype = DType::kF32;
  Shape shape;  // of the logical tensor
  Box box;      // in the logical tensor
  std::byte* data = nullptr;

  std::size_t bytes() const {
    return static_cast<std::size_t>(box.extent.count()) * size_of(dtype);
  }
};

}  // namespace trireme::checkpoint
