#pragma once
// Included only by kernel sources: AdamW's update of one weight.
#include <cmath>

#include "model/ops/cuda/values.cuh"
#include "model/ops/optimizer.h"

namespace trireme::ops::cuda {

template <class A>
struct AdamWFactors {
  A beta1 = 0, beta2 = 0, rest1 = 0, rest2 = 0, epsilon = 0;
  A step_size = 0;     // learning rate / (1 - beta1^step)
  A inverse_root = 1;  // 1 / sqrt(1 - beta2^step)
  A decay = 0;         // learning rate * weight decay

  static AdamWFactors of(const AdamW& how) {
    const double steps = static_cast<double>(how.step);
    return {.beta1 = static_cast<A>(how.beta1),
            .beta2 = static_cast<A>(how.beta2),
            .rest1 = static_cast<A>(1 - how.beta1),
            .rest2 = static_cast<A>(1 - how.beta2),
            .epsilon = static_cast<A>(how.epsilon),
            .step_size = static_cast<A>(how.learning_rate / (1 - std::pow(how.beta1, steps))),
            .inverse_root = static_cast<A>(1 / std::sqrt(1 - std::pow(how.beta2, steps))),
            .decay = static_cast<A>(how.learning_rate * how.weight_decay)};
  }

  // The new weight; g is the scaled gradient.
  __device__ A update(A& m, A& v, A g, A old) const {
    m = std::fma(beta1, m, rest1 * g);
    v = std::fma(beta2, v, rest2 * (g * g));
    const A ratio = m / std::fma(std::sqrt(v), inverse_root, epsilon);
    // One rounding of the weight: the decrement is computed first.
    return old - std::fma(decay, old, step_size * ratio);
  }
};

}  // namespace trireme::ops::cuda
