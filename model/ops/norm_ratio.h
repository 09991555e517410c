#pragma once
#include "model/device/stream.h"
#include "model/tensor/tensor.h"

// Scalars computed on the device from norms, which are given as float64 sums of squares over chunks
// (ops::add_chunk_squares): a CPU adds them in order, a GPU in a fixed tree.
namespace trireme::ops {

// ratio [1] = coefficient |w| / (|grad_scale| |d| + weight_decay |w|), or 1 if |w| or |d| is 0.
// grad_scale [1]; empty: 1. It is the layer-wise rate of LAMB with d the direction and coefficient
// 1, and of LARS (You, Gitman, Ginsburg 2017) with d the gradient.
struct TrustRatio {
  double coefficient = 1, weight_decay = 0;
};
void trust_ratio(Stream&, Tensor ratio, Tensor weight_squares, Tensor direction_squares,
                 Tensor grad_scale, const TrustRatio& how);

// inverse [1] = 1 / (|x| + epsilon)
void inverse_norm(Stream&, Tensor inverse, Tensor squares, double epsilon);

}  // namespace trireme::ops
