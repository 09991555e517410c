#include "model/ops/optimizer.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void add_chunk_squares(Stream&, Tensor partials, Tensor x, std::int64_t into,
                                          std::int64_t chunk));
TRIREME_ON_DEVICES(void clip_scale(Stream&, Tensor norm, Tensor scale, Tensor partials,
                                   const Clip& how));
TRIREME_ON_DEVICES(void adamw(Stream&, const UpdateTensors& tensors, Tensor grad_scale,
                              const AdamW& how));

void add_chunk_squares(Stream& stream, Tensor partials, Tensor x, std::int64_t into,
                       std::int64_t chunk) {
  require(chunk > 0 && chunk <= kNormChunk && into >= 0 && into < chunk,
          "add_chunk_squares: ", into, " elements into a chunk of ", chunk);
  require_count("add_chunk_squares: partials", partials, (into + x.count() + chunk - 1) / chunk,
                DType::kF64);
  record_memory(stream, "update", {x});
  TRIREME_DISPATCH(stream, add_chunk_squares(stream, partials, x, into, chunk));
}

void clip_scale(Stream& stream, Tensor norm, Tensor scale, Tensor partials, const Clip& how) {
  require(norm.dtype == accumulator_of(norm.dtype), "clip_scale: the norm is ",
          name_of(norm.dtype));
  require_count("clip_scale: norm", norm, 1, norm.dtype);
  require_count("clip_scale: scale", scale, 1, norm.dtype);
  require_count("clip_scale: partials", partials, partials.count(), DType::kF64);
  record_memory(stream, "update", {partials});
  TRIREME_DISPATCH(stream, clip_scale(stream, norm, scale, partials, how));
}

void adamw(Stream& stream, const UpdateTensors& tensors, Tensor grad_scale, const AdamW& how) {
  require(how.step >= 1, "adamw: steps count from 1, not ", how.step);
  require_update("adamw", tensors, grad_scale, {"m", "v"});
  record_update(stream, tensors);
  TRIREME_DISPATCH(stream, adamw(stream, tensors, grad_scale, how));
}

}  // namespace trireme::ops
