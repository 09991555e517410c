#include "model/ops/float8.h"

#include "model/ops/check.h"
#include "model/ops/cpu/float8.h"
#include "model/ops/cuda/float8.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {
namespace {

void pass_over(Stream& stream, Arena& scratch, const Quantization& op) {
  const Tensor& from = op.from;
  require(from.dtype == DType::kBf16, "quantize: from is ", name_of(from.dtype));
  require(from.rows() % kFloat8Multiple == 0 && from.width() % kFloat8Multiple == 0,
          "quantize: from ", from.shape, " is not made of multiples of ", kFloat8Multiple);
  require_count("quantize: inverse_scale", op.inverse_scale, 1, DType::kF32);
  if (op.magnitudes) require_magnitudes("quantize: magnitudes", op.magnitudes, from);
  // A pass for the largest magnitude, and one for the codes.
  const bool measures = !op.is_scaled && !op.magnitudes;
  if (measures) record_memory(stream, "quantize", {from});
  record_memory(stream, "quantize", {from, op.codes, op.transposed});
  const Arena::Frame frame(scratch);
  const Tensor parts = stream.on_cuda() && measures
                           ? scratch.take({cuda::magnitude_parts(from.count())}, DType::kI32)
                           : Tensor{};
  TRIREME_DISPATCH(stream, quantize(stream, op, parts));
}

Tensor take_codes(Arena& into, const Tensor& from, bool transpose) {
  const std::int64_t rows = transpose ? from.width() : from.rows();
  const std::int64_t columns = transpose ? from.rows() : from.width();
  return into.take({rows, columns / 4}, DType::kI32);
}

Float8Matrix quantize_one(Stream& stream, Arena& into, Quantization op, bool transpose) {
  const Tensor codes = take_codes(into, op.from, transpose);
  if (!op.inverse_scale) op.inverse_scale = into.take({1}, DType::kF32);
  (transpose ? op.transposed : op.codes) = codes;
  pass_over(stream, into, op);
  return {op.format, codes, op.inverse_scale};
}

}  // namespace

void require_magnitudes(const char* what, const Tensor& magnitudes, const Tensor& stored) {
  require_count(what, magnitudes, kMagnitudes, DType::kI32);
  require(stored.dtype == DType::kBf16, what, " are of ", name_of(stored.dtype));
}

Float8Matrix quantize(Stream& stream, Arena& into, Tensor from, Float8Format format, bool transpose,
                      Tensor inverse_scale, Tensor magnitudes) {
  return quantize_one(
      stream, into,
      {.from = from, .format = format, .inverse_scale = inverse_scale, .magnitudes = magnitudes},
      transpose);
}

Float8Matrix quantize_scaled(Stream& stream, Arena& into, Tensor from, Float8Format format,
                             bool transpose, Tensor inverse_scale) {
  return quantize_one(
      stream, into,
      {.from = from, .format = format, .inverse_scale = inverse_scale, .is_scaled = true},
      transpose);
}

Float8Matrix quantize_both(Stream& stream, Arena& into, const Float8Matrix& transposed, Tensor from,
                           Tensor magnitudes) {
  const Float8Matrix plain{transposed.format, take_codes(into, from, false),
                           transposed.inverse_scale};
  quantize_both(stream, into, plain, transposed, from, magnitudes);
  return plain;
}

void quantize_both(Stream& stream, Arena& scratch, const Float8Matrix& plain,
                   const Float8Matrix& transposed, Tensor from, Tensor magnitudes) {
  require_like("quantize_both: plain", plain.codes, {from.rows(), from.width() / 4}, DType::kI32);
  require_like("quantize_both: transposed", transposed.codes, {from.width(), from.rows() / 4},
               DType::kI32);
  pass_over(stream, scratch,
            {.from = from,
             .format = plain.format,
             .codes = plain.codes,
             .transposed = transposed.codes,
             .inverse_scale = plain.inverse_scale,
             .magnitudes = magnitudes});
}

}  // namespace trireme::ops
