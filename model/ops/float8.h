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

  // Memory of `arena` for a matrix [rows, columns].
  static Float8Matrix take(Arena& arena, Float8Format format, std::int64_t rows,
                           std::int64_t columns) {
    return {format, arena.take({rows, columns / 4}, DType::kI32), arena.take({1}, DType::kF32)};
  }
  std::int64_t rows() const { return codes.rows(); }
  std::int64_t columns() const { return 4 * codes.width(); }
};

// Both extents of a float8 matrix are multiples of this: cuBLASLt requires it.
inline constexpr std::int64_t kFloat8Multiple = 16;

// What an op may collect of the bfloat16 values that it stores: [kMagnitudes] I32, each the largest
// magnitude of some of them or zero, as bits, which are ordered by magnitude, with NaN on top.
inline constexpr std::int64_t kMagnitudes = 256;
void require_magnitudes(const char* what, const Tensor& magnitudes, const Tensor& stored);

// Rounds `from` [rows, columns] bfloat16, or its transpose, to `format` in memory of `into`. The
// scale is computed from the current largest magnitude ("current scaling"); see float8_scale. The
// codes are the same on every device. `inverse_scale` [1] F32 receives the scale; empty: it is in
// memory of `into` too. `magnitudes`, from the op that wrote `from`, save the pass for the largest.
Float8Matrix quantize(Stream&, Arena& into, Tensor from, Float8Format format, bool transpose,
                      Tensor inverse_scale = {}, Tensor magnitudes = {});

// The same with the scale of an earlier quantization of the same values to the same format, which
// saves the pass for the largest magnitude.
Float8Matrix quantize_scaled(Stream&, Arena& into, Tensor from, Float8Format format, bool transpose,
                             Tensor inverse_scale);

// Both orientations with one scale, the values read once for both: fills `transposed` and returns
// `from` as it is, in memory of `into`, in the format and with the scale of `transposed`.
Float8Matrix quantize_both(Stream&, Arena& into, const Float8Matrix& transposed, Tensor from,
                           Tensor magnitudes = {});
// The same into `plain` and `transposed`, which have one format and one inverse_scale.
void quantize_both(Stream&, Arena& scratch, const Float8Matrix& plain,
                   const Float8Matrix& transposed, Tensor from, Tensor magnitudes = {});

// The passes over `from` of one of these.
struct Quantization {
  Tensor from;
  Float8Format format;
  Tensor codes{}, transposed{};  // of `from` and of its transpose; at most one is empty
  Tensor inverse_scale;
  bool is_scaled = false;  // inverse_scale is given
  Tensor magnitudes{};     // of `from`; empty: not known
};

}  // namespace trireme::ops
