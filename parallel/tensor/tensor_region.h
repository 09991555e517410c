#pragma once
#include "model/layers/region.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// Tensor parallelism: outside the region every rank has every token, inside a
// slice of the width. Entering sends nothing and is summed on the way back;
// leaving is summed and sends nothing back. (f and g of Megatron-LM, Shoeybi et
// al. 2019.) Sums are made in place: the tensor summed is the one returned.
class TensorRegion : public Region {
 public:
  // `ranks` outlives the region.
  explicit TensorRegion(Communicator& ranks) : ranks_(ranks) {}

  Slice slice() const override { return {ranks_.rank(), ranks_.size()}; }
  Tensor leave(Run& run, Arena& into, Tensor partial) override;
  Tensor start_enter_backward(Run& run, Tensor partial) override;
  void sum(Run& run, Tensor x) override;
  void max(Run& run, Tensor x) override;

 protected:
  Communicator& ranks() const { return ranks_; }

 private:
  Communicator& ranks_;
};

}  // namespace trireme
