#pragma once
#include <algorithm>

#include "model/ops/float8.h"

namespace trireme::ops::cuda {

// Number of parts of `count` elements whose maximum magnitude is computed separately.
constexpr std::int64_t magnitude_parts(std::int64_t count) {
  constexpr std::int64_t kMost = 256, kElements = 8192;
  return std::clamp<std::int64_t>((count + kElements - 1) / kElements, 1, kMost);
}

// `parts` [magnitude_parts] I32 is workspace for the maxima; empty if the scale or magnitudes are
// given.
void quantize(Stream&, const Quantization& op, Tensor parts);

}  // namespace trireme::ops::cuda
