#include "model/ops/float8.h"

#include "model/ops/cpu/float8.h"
#include "model/ops/cuda/float8.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

Float8Matrix quantize(Stream& stream, Arena& accumulate, Tensor from, Float8Format format,
                      bool transpose) {
  require(from.dtype == DType::kBf16, "quantize: from is ", name_of(from.dtype));
  const std::int64_t rows = transpose ? from.width() : from.rows();
  const std::int64_t columns = transpose ? from.rows() : from.width();
  require(rows % kFloat8Multiple == 0 && columns % kFloat8Multiple == 0, "quantize: from ",
          from.shape, " is not made of multiples of ", kFloat8Multiple);
  Float8Matrix made{format, accumulate.take({rows, columns / 4}, DType::kI32),
                    accumulate.take({1}, DType::kF32)};
  // Two passes: the largest magnitude, and the codes.
  record_memory(stream, "quantize", {from});
  record_memory(stream, "quantize", {from, made.codes});
  const Arena::Frame frame(accumulate);
  const Tensor parts = stream.on_cuda()
                           ? accumulate.take({cuda::magnitude_parts(from.count())}, DType::kI32)
                           : Tensor{};
  TRIREME_DISPATCH(stream, quantize(stream, made, from, parts, transpose));
  return made;
}

}  // namespace trireme::ops
