#pragma once
#include <cstdint>

#include "model/device/stream.h"
#include "model/ops/strided_copy.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// out [count] = `scale` times standard normal numbers, rounded to float32 and then to its dtype. A
// number depends only on the key and on the element's index in the whole tensor. They come from
// Philox by the transform of Box and Muller (1958), with a logarithm, a sine and a cosine of our
// own, made of additions, products, quotients and square roots, which IEEE 754 defines to the bit:
// the same bits on every processor and device.
struct NormalDraw {
  std::uint64_t key = 0;
  double scale = 1;
  Strided where;
};
void draw_normal(Stream&, Tensor out, const NormalDraw& how);

}  // namespace trireme::ops
