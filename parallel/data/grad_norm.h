#pragma once
#include <vector>

#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// Squared gradients of the whole model as partial sums over fixed chunks of the units' elements, in
// the order in which a single rank would declare them. Added in this order they give the same norm
// for every layout.
class GradNorm {
 public:
  // `held` is this rank's shard of `whole`, the parameters declared by a rank that has all layers;
  // both are laid out. `slice` is this rank's index among the ranks that split each matrix; `ranks`
  // together hold the model, ZeRO shards included. The stores outlive this object. Allocates the
  // partial sums in `workspace`.
  GradNorm(const ParamStore& held, const ParamStore& whole, Slice slice, Communicator& ranks,
           Arena& workspace);

  // Computes and exchanges the partial sums, [chunks] float64.
  Tensor squares(Stream& stream) const;

 private:
  struct Run {
    Tensor grad;         // [elements], contiguous in a unit
    std::int64_t first;  // index of its first partial sum
    std::int64_t into;   // offset in the first chunk
  };
  Communicator& ranks_;
  std::vector<Run> runs_;
  Tensor partials_;
};

}  // namespace trireme
