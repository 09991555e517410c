#pragma once
#include <vector>

#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// The squares of all gradients of a model, as partial sums over fixed chunks of its
// parameters, in the order in which one rank would declare them: added up in that order
// they give the same norm wherever the layers are.
class GradNorm {
 public:
  // `held` is this rank's share of `whole`, the model's parameters as declared by a rank
  // that has all layers (not allocated); `model` are the ranks that share the model. The
  // stores outlive this. Takes the partial sums from `workspace`.
  GradNorm(const ParamStore& held, const ParamStore& whole, Communicator& model, Arena& workspace);

  // Computes and exchanges the partial sums, [chunks] float64.
  Tensor squares(Stream& stream) const;

 private:
  struct Part {
    const Param* param;
    std::int64_t first;  // its place among the partial sums
  };
  Communicator& model_;
  std::vector<Part> parts_;
  Tensor partials_;
};

}  // namespace trireme
