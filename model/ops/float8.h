#pragma once
#include "model/device/stream.h"
#include "model/tensor/arena.h"
#include "model/tensor/float8.h"

namespace trireme::ops {

// A float8 matrix with one scale: its values are the codes times inverse_scale.
struct Float8Matrix {
  Float8Format format = Float8Format::kE4M3;
  Tensor codes;          // [rows, columns / 4] I32: four codes per word, the first lowest
  Tensor inverse_scale;  // [1] F32, a power of two; NaN if a value was not finite

  std::int64_t rows() const { return codes.rows(); }
  std::int64_t columns() const { return 4 * codes.width(); }
};

// Both extents of a float8 matrix are multiples of this: cuBLASLt requires it.
inline constexpr std::int64_t kFloat8Multiple = 16;

// Rounds `from` [rows, columns] bfloat16, or its transpose, to `format` in memory of `into`. The
// scale is computed from the current largest magnitude ("current scaling"); see float8_scale. The
// codes are the same on every device.
Float8Matrix quantize(Stream&, Arena& accumulate, Tensor from, Float8Format format, bool transpose);

}  // namespace trireme::ops
