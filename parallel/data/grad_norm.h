#pragma once
#include <vector>

#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// Squared gradients of the whole model as partial sums over fixed chunks of the units' elements, or
// of an expert's parameters, in the order in which a single rank would declare them. Added in this
// order they give the same norm for every layout.
class GradNorm {
 public:
  // The ranks that together hold the model, ZeRO shards and experts included, and this rank's
  // place.
  struct Ranks {
    Communicator& model;
    Slice tensor = {};                // among the ranks that split each matrix
    bool is_primary_of_dense = true;  // false: another of these ranks has the same dense shard
  };
  // `held` is this rank's shard of `whole`, the parameters declared by a rank that has all layers
  // and experts; both are laid out. The stores outlive this object. Allocates the partial sums in
  // `workspace`.
  GradNorm(const ParamStore& held, const ParamStore& whole, const Ranks& ranks, Arena& workspace);

  // Computes and exchanges the partial sums, [chunks] float64.
  Tensor squares(Stream& stream) const;

 private:
  struct Run {
    Tensor grad;         // [elements], contiguous in a unit
    std::int64_t chunk;  // elements of a chunk
    std::int64_t first;  // index of its first partial sum
    std::int64_t into;   // offset in the first chunk
  };
  Communicator& ranks_;
  std::vector<Run> runs_;
  Tensor partials_;
};

}  // namespace trireme
