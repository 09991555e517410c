#pragma once
#include "model/device/stream.h"
#include "model/tensor/arena.h"
#include "model/tensor/float8.h"

namespace trireme::ops {

// A matrix in float8 with one scale: its values are those of the codes times inverse_scale.
struct Float8Matrix {
  Float8Format format = Float8Format::kE4M3;
  Tensor codes;          // [rows, columns / 4] I32: four codes to a word, the first lowest
  Tensor inverse_scale;  // [1] F32, a power of two; NaN where a value was not finite

  std::int64_t rows() const { return codes.rows(); }
  std::int64_t columns() const { return 4 * codes.width(); }
};

// What both extents of such a matrix are multiples of: cuBLASLt multiplies no others.
inline constexpr std::int64_t kFloat8Multiple = 16;

// `from` [rows, columns] bfloat16, or its transpose, rounded to `format` in memory of `into`. The
// scale is made from the largest magnitude there is now ("current scaling"); see float8_scale.
// The same codes on every device.
Float8Matrix quantize(Stream&, Arena& into, Tensor from, Float8Format format, bool transpose);

}  // namespace trireme::ops
