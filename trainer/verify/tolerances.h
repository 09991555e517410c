#pragma once
#include <cstdint>
#include <string>

#include "trainer/config/run_config.h"

namespace trireme::verify {

// By how much two layouts may differ. A sum in another order has other roundings, which grow with
// the coarser of the two dtypes; where both sums are the same to the last bit by design, by
// nothing.
struct Tolerances {
  bool exact = false;
  double loss = 0, grad_norm = 0;  // relative
  double gradient = 0;             // of the largest of the gradient's weight: a bias that cancels
                                   // in the softmax has roundings alone
  bool is_later = false;           // than the first step
  double rounding = 0;             // of a weight to what the layers read, relative
  double underflow = 0;            // and of one below the dtype's normal range, absolute

  // Of a step: weights that roundings have moved apart move the next steps' sums.
  Tolerances in_step(std::int64_t step) const;

  // Of so many elements of a weight, those that may be off by more: their gradient was mostly
  // roundings in an earlier step, and is not now.
  std::int64_t doubtful(std::int64_t elements) const;

  // What a weight may be off after updates that moved it by up to `largest_update` in all. An
  // optimizer that divides by the gradient's size makes much of one that is mostly roundings:
  // allowed is what a change of the gradient by its own tolerance makes of the update.
  double weight(double value, double gradient_here, double gradient_scale,
                double largest_update) const;
};

Tolerances tolerances(const RunConfig& subject, const RunConfig& reference);

}  // namespace trireme::verify
