#pragma once
#include <cstdint>

#include "trainer/config/run_config.h"

namespace trireme::verify {

// Tolerances of a comparison. They cover the rounding errors of sums in another order and depend on
// the coarser of the two dtypes; zero where the config guarantees bit-identical sums.
struct Tolerances {
  bool exact = false;
  double loss = 0;       // relative
  double gradient = 0;   // relative to the largest gradient of the weight, as some biases have
                         // gradients of rounding errors only
  double ratio = 0;      // of the fitted ratio of a weight's gradient
  double update = 0;     // of grad_norm, moments (relative to the largest of the weight) and
                         // updates, from equal gradients
  double rounding = 0;   // of master weights to published weights, relative
  double underflow = 0;  // the same below the dtype's normal range, absolute

  // Tolerance of a weight after `updates`, each of which moves it by about the learning rate.
  double weight(double value, double learning_rate, std::int64_t updates) const;
};

Tolerances tolerances(const RunConfig& subject, const RunConfig& reference);
// The same without the guarantee of bit-identical sums; used to match patterns of causes.
Tolerances roundings(const RunConfig& subject, const RunConfig& reference);

}  // namespace trireme::verify
