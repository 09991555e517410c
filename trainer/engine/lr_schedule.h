#pragma once
#include <cstdint>

#include "trainer/config/run_config.h"

namespace trireme {

// The learning rate of `step`, counted from 1: linear warmup to `peak`, then the decay of the named
// schedule to min_lr_factor * peak at the last step (constant: no decay). A pure function.
//   cosine        Loshchilov and Hutter 2017
//   wsd           warmup-stable-decay (Hu et al. 2024): constant, then decay_type over the last
//                 decay_ratio of the steps
//   inverse_sqrt  Vaswani et al. 2017: peak * sqrt(warmup / step), not below the minimum
double learning_rate(const LrSchedulerConfig& config, double peak, std::int64_t step,
                     std::int64_t total_steps);

}  // namespace trireme
