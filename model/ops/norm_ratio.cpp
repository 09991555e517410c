#include "model/ops/norm_ratio.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void trust_ratio(Stream&, Tensor ratio, Tensor weight_squares,
                                    Tensor direction_squares, Tensor grad_scale,
                                    const TrustRatio& how));
TRIREME_ON_DEVICES(void inverse_norm(Stream&, Tensor inverse, Tensor squares, double epsilon));

void trust_ratio(Stream& stream, Tensor ratio, Tensor weight_squares, Tensor direction_squares,
                 Tensor grad_scale, const TrustRatio& how) {
  require(ratio.dtype == accumulator_of(ratio.dtype), "trust_ratio: the ratio is ",
          name_of(ratio.dtype));
  require_count("trust_ratio: ratio", ratio, 1, ratio.dtype);
  require_count("trust_ratio: weight_squares", weight_squares, weight_squares.count(), DType::kF64);
  require_count("trust_ratio: direction_squares", direction_squares, direction_squares.count(),
                DType::kF64);
  if (grad_scale) require_count("trust_ratio: grad_scale", grad_scale, 1, ratio.dtype);
  record_memory(stream, "update", {weight_squares, direction_squares});
  TRIREME_DISPATCH(stream,
                   trust_ratio(stream, ratio, weight_squares, direction_squares, grad_scale, how));
}

void inverse_norm(Stream& stream, Tensor inverse, Tensor squares, double epsilon) {
  require(inverse.dtype == accumulator_of(inverse.dtype), "inverse_norm: the inverse is ",
          name_of(inverse.dtype));
  require_count("inverse_norm: inverse", inverse, 1, inverse.dtype);
  require_count("inverse_norm: squares", squares, squares.count(), DType::kF64);
  record_memory(stream, "update", {squares});
  TRIREME_DISPATCH(stream, inverse_norm(stream, inverse, squares, epsilon));
}

}  // namespace trireme::ops
