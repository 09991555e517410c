#pragma once
#include <cstdint>

#include "trainer/config/run_config.h"

namespace trireme {

// The learning rate of step 1, 2, ... : linear warmup to `peak`, then the named
// curve down to min_lr_factor * peak at the last step. A pure function of the step.
//   cosine        Loshchilov and Hutter 2017
//   wsd           warmup, stable, decay (Hu et al. 2024): flat, then the last
//                 decay_ratio of the steps down by decay_type
//   inverse_sqrt  Vaswani et al. 2017: peak * sqrt(warmup / step), not below the minimum
double learning_rate(const LrSchedulerConfig& how, double peak, std::int64_t step,
                     std::int64_t total_steps);

}  // namespace trireme
