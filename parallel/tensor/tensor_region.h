#pragma once
#include "model/layers/region.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// Tensor parallelism (f and g of Megatron-LM, Shoeybi et al. 2019): outside a region every rank has
// the full activations, inside it a slice of the width. Entry is the identity in the forward and an
// all-reduce in the backward; exit is an all-reduce in the forward and the identity in the
// backward. All-reduces are in place: they return their argument.
class TensorRegion : public Region {
 public:
  // `ranks` outlives the region.
  explicit TensorRegion(Communicator& ranks) : ranks_(ranks) {}

  Slice slice() const override { return {ranks_.rank(), ranks_.size()}; }
  Tensor leave(ExecContext& ctx, Arena& into, Tensor partial) override;
  Tensor start_enter_backward(ExecContext& ctx, Tensor partial) override;
  void sum(ExecContext& ctx, Tensor x) override;
  void max(ExecContext& ctx, Tensor x) override;

 protected:
  Communicator& ranks() const { return ranks_; }

 private:
  Communicator& ranks_;
};

}  // namespace trireme
