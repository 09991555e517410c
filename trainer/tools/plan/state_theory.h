#pragma once
#include "trainer/config/run_config.h"

namespace trireme {

// Model state in bytes per parameter as counted in papers: without activations, evenly sharded.
struct StateTheory {
  double weights = 0, gradients = 0, optimizer = 0;  // includes master weights
  double total() const { return weights + gradients + optimizer; }
  // Bytes per parameter on one of `ranks` data-parallel ranks with ZeRO stage `zero`.
  double per_rank(int zero, int ranks) const;
  // The same of experts that `expert` of the data ranks divide among themselves.
  double per_expert_rank(int zero, int ranks, int expert) const;
  // Bytes on a data-parallel rank of a layout, averaged over tensor and pipeline ranks.
  double bytes(const ModelConfig& model, const ParallelismConfig& layout) const;
};

// Rajbhandari et al. 2020: 16-bit weights and gradients, float32 master weights and Adam moments.
inline constexpr StateTheory kPaperState{2, 2, 12};

// Model state of this trainer, whose gradients are float32. `stored` is the size of a checkpoint in
// bytes per parameter (master weights and optimizer state).
StateTheory state_theory(const RunConfig& config, double stored);

}  // namespace trireme
