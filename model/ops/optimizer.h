#pragma once
#include <limits>

#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// Elements a partial sum of squares covers. Fixed, and counted from a start that all
// ranks agree on, so that a norm's bits do not depend on who holds what.
inline constexpr std::int64_t kNormChunk = 4096;
// Chunks of `count` elements, the last one as it may be.
inline std::int64_t norm_chunks(std::int64_t count) {
  return (count + kNormChunk - 1) / kNormChunk;
}

// partials [ceil((into + count) / kNormChunk)] float64 += sums of squares of x's chunks, in
// order; x begins `into` elements into the first.
void add_chunk_squares(Stream&, Tensor partials, Tensor x, std::int64_t into = 0);

struct Clip {
  double max_norm = 0;  // 0: no clipping
  double limit = std::numeric_limits<double>::infinity();
  double loss_scale = 1;  // what the gradients were multiplied by: the norm is without it
};
// norm [1] = sqrt(sum of partials, in order) / loss_scale; scale [1] = min(1, max_norm / norm) /
// loss_scale; NaN, for an update that changes nothing, unless the norm is finite and at most
// `limit`. Both float32 (float64 for float64 gradients).
void clip_scale(Stream&, Tensor norm, Tensor scale, Tensor partials, const Clip& how);

// AdamW (Loshchilov and Hutter 2019) on a flat range, in one pass:
//   g = grad * grad_scale;  m, v the moments;  master -= lr (m^/(sqrt(v^) + eps) + decay master)
//   value = master in the compute dtype; `master` may be empty: then value is the master.
// grad, m, v, master and grad_scale [1] share the accumulator dtype. A grad_scale of NaN
// changes nothing.
struct AdamW {
  double learning_rate = 0, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0;
  std::int64_t step = 1;  // 1 for the first update; bias correction counts from it
};
struct AdamWState {
  Tensor value, master, m, v, grad, grad_scale;
};
void adamw(Stream&, const AdamWState&, const AdamW&);

}  // namespace trireme::ops
