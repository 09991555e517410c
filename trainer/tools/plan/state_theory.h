#pragma once
#include "trainer/config/run_config.h"

namespace trireme {

// Bytes a parameter of what a step leaves behind, as papers count it: without the activations, and
// as if every rank held an equal share.
struct StateTheory {
  double weights = 0, gradients = 0, optimizer = 0;  // with the masters
  double total() const { return weights + gradients + optimizer; }
  // Of one of `ranks` that divide it by ZeRO stage `zero`.
  double per_rank(int zero, int ranks) const;
};

// Rajbhandari et al. 2020: weights and gradients in 16 bits; masters and Adam's two moments in
// float32.
inline constexpr StateTheory kPaperState{2, 2, 12};

// What this program keeps under a config: gradients are float32, where the paper's are 16 bits.
// `stored` bytes a parameter are in a checkpoint: masters and the optimizer's state.
StateTheory state_theory(const RunConfig& config, double stored);

}  // namespace trireme
