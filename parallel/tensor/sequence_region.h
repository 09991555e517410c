#pragma once
#include "parallel/tensor/tensor_region.h"

namespace trireme {

// Tensor parallelism with the tokens between regions shared out as well (sequence
// parallelism, Korthikanti et al. 2022): rank r has rows [r, r + 1) * tokens / ranks
// of a micro-batch's [batch seq] rows. They are gathered on entering, summed and
// scattered on leaving; the way back is the same. The message volume is that of
// TensorRegion, the activations between regions take one rank's share.
//
// Attention is inside a region and sees whole sequences, so the cut need not
// respect them. What stands outside has a share of its gradient: PartialGradients.
class SequenceRegion final : public TensorRegion {
 public:
  using TensorRegion::TensorRegion;

  bool splits_tokens() const override { return ranks().size() > 1; }
  Tensor enter(Run& run, Arena& into, Tensor x) override;
  Tensor leave(Run& run, Arena& into, Tensor partial) override;
  Tensor leave_backward(Run& run, Tensor dy) override;
  Tensor start_enter_backward(Run& run, Tensor partial) override;

 private:
  Tensor gathered(Run& run, Arena& into, Tensor part) const;
  Tensor scattered(Run& run, Arena& into, Tensor all) const;
};

}  // namespace trireme
