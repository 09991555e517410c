#pragma once
#include <cstdint>

#include "trainer/config/run_config.h"

namespace trireme::verify {

// By how much two layouts may differ. A sum in another order has other roundings, which grow with
// the coarser of the two dtypes; where both sums are the same to the last bit by design, by
// nothing.
struct Tolerances {
  bool exact = false;
  double loss = 0;       // relative
  double gradient = 0;   // of the largest of the gradient's weight: a bias that cancels in the
                         // softmax has roundings alone
  double ratio = 0;      // of a weight's whole gradient, fitted
  double update = 0;     // of what both optimizers make of the same gradients: their norm,
                         // the moments, by the largest of a weight, and the updates
  double rounding = 0;   // of a weight to what the layers read, relative
  double underflow = 0;  // and of one below the dtype's normal range, absolute

  // What a weight may be off after so many updates, each of which moves it by about the learning
  // rate.
  double weight(double value, double learning_rate, std::int64_t updates) const;
};

Tolerances tolerances(const RunConfig& subject, const RunConfig& reference);
// The same where nothing is promised to the bit: what roundings a mistake stands among.
Tolerances roundings(const RunConfig& subject, const RunConfig& reference);

}  // namespace trireme::verify
