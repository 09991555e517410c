#pragma once
#include <cmath>

#include "model/ops/cpu/simd/optimizer.h"
#include "model/ops/optimizer.h"

namespace trireme::ops::cpu {

inline simd::AdamWStep step_of(const AdamW& how) {
  const double steps = static_cast<double>(how.step);
  return {.beta1 = how.beta1,
          .beta2 = how.beta2,
          .epsilon = how.epsilon,
          .step_size = how.learning_rate / (1 - std::pow(how.beta1, steps)),
          .inverse_root = 1 / std::sqrt(1 - std::pow(how.beta2, steps)),
          .decay = how.learning_rate * how.weight_decay};
}

}  // namespace trireme::ops::cpu
