#pragma once
#include <limits>

#include "model/device/stream.h"
#include "model/tensor/update_tensors.h"

namespace trireme::ops {

// Elements per partial sum of squares. Fixed, and counted from an offset that all ranks agree on,
// so that the bits of a norm do not depend on sharding.
inline constexpr std::int64_t kNormChunk = 4096;
// Chunks of `count` elements; the last one may be shorter.
inline std::int64_t norm_chunks(std::int64_t count) {
  return (count + kNormChunk - 1) / kNormChunk;
}

// partials [ceil((into + count) / chunk)] float64 += sums of squares of x's chunks, in order;
// x begins `into` elements into the first chunk, and a chunk has at most kNormChunk elements.
void add_chunk_squares(Stream&, Tensor partials, Tensor x, std::int64_t into = 0,
                       std::int64_t chunk = kNormChunk);

struct Clip {
  double max_norm = 0;  // 0: no clipping
  double limit = std::numeric_limits<double>::infinity();
  double loss_scale = 1;  // factor of the gradients; the norm is unscaled
};
// Partial sums that are added first, in order, before these sums are, in order: a GPU adds the
// groups side by side.
inline constexpr std::int64_t kNormGroup = 256;
// norm [1] = sqrt(sum of partials, by groups) / loss_scale; scale [1] = min(1, max_norm / norm) /
// loss_scale, or NaN, which skips the update, unless the norm is finite and at most `limit`. Both
// are float32 (float64 for float64 gradients). The partials are overwritten.
void clip_scale(Stream&, Tensor norm, Tensor scale, Tensor partials, const Clip& how);

// AdamW (Loshchilov and Hutter 2019), in one pass; the states are the moments m and v:
//   g = grad * grad_scale;  master -= lr (m^/(sqrt(v^) + eps) + decay master)
//   value = master in the compute dtype
// States and grad_scale [1] have the accumulator dtype. If grad_scale is NaN nothing changes.
struct AdamW {
  double learning_rate = 0, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0;
  std::int64_t step = 1;  // from 1; used by bias correction
};
void adamw(Stream&, const UpdateTensors& tensors, Tensor grad_scale, const AdamW& how);

}  // namespace trireme::ops
