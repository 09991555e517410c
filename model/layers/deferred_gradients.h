#pragma once
#include <vector>

#include "model/tensor/arena.h"

namespace trireme {

class Linear;

// Gradients of linear layers' weights that a backward has put off: its weight half (Qi et
// al. 2023, "Zero Bubble Pipeline Parallelism"). What they are made from stays in keep.
class DeferredGradients {
 public:
  // `dy` and `x` as for Linear::backward_weight; none of the three lies in scratch.
  void add(const Run& run, const Linear& linear, Tensor dy, Tensor dsum, Tensor x);
  // Makes them, in the order in which they were put off, and forgets them.
  void compute(Run& run);

 private:
  struct Entry {
    const Linear* linear;
    Tensor dy, dsum, x;
  };
  std::vector<Entry> entries_;
};

}  // namespace trireme
