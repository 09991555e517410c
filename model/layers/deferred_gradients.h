#pragma once
#include <vector>

#include "model/tensor/arena.h"

namespace trireme {

class Linear;

// Weight gradients that a backward deferred, the W half of zero-bubble schedules (Qi et al. 2023,
// "Zero Bubble Pipeline Parallelism"). Their inputs stay in ctx.saved.
class DeferredGradients {
 public:
  // `dy` and `x` as for Linear::backward_weight; none of the three is in scratch.
  void add(const ExecContext& ctx, const Linear& linear, Tensor dy, Tensor dsum, Tensor x);
  // Computes the gradients in the order in which they were deferred, and clears the list.
  void compute(ExecContext& ctx);

 private:
  struct Entry {
    const Linear* linear;
    Tensor dy, dsum, x;
  };
  std::vector<Entry> entries_;
};

}  // namespace trireme
