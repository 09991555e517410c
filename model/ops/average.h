#pragma once
#include "model/device/stream.h"
#include "model/tensor/tensor.h"

namespace trireme::ops {

// A step of the exponential moving average of weights (Polyak and Juditsky 1992, with a decay):
//   average += (1 - decay) * (weight - average)
// Every operation is rounded by itself, so that the bits are the same on every device and those of
// torch.lerp, and equal weights keep an average exactly. `average` and `weight` are flat and of
// equal count; they and grad_scale [1] have an accumulator dtype. If grad_scale is NaN nothing
// changes.
void update_average(Stream&, Tensor average, Tensor weight, Tensor grad_scale, double decay);

}  // namespace trireme::ops
