#pragma once
#include <vector>

#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// The squares of all gradients of a model, as partial sums over fixed chunks of its units'
// elements, in the order in which one rank would declare them: added up in that order they
// give the same norm wherever the layers are and whoever owns them.
class GradNorm {
 public:
  // `held` is this rank's share of `whole`, the model's parameters as declared by a rank
  // that has all layers, both laid out; `slice` is this rank among those that share each
  // matrix; `ranks` hold the model together, with all that they share out. The stores
  // outlive this. Takes the partial sums from `workspace`.
  GradNorm(const ParamStore& held, const ParamStore& whole, Slice slice, Communicator& ranks,
           Arena& workspace);

  // Computes and exchanges the partial sums, [chunks] float64.
  Tensor squares(Stream& stream) const;

 private:
  struct Run {
    Tensor grad;         // [elements], of neighbours in a unit
    std::int64_t first;  // its first partial sum
    std::int64_t into;   // elements of the first chunk before it
  };
  Communicator& ranks_;
  std::vector<Run> runs_;
  Tensor partials_;
};

}  // namespace trireme
