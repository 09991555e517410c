#pragma once
#include "parallel/tensor/tensor_region.h"

namespace trireme {

// Tensor parallelism with sequence parallelism (Korthikanti et al. 2022): outside regions, rank r
// holds rows [r, r + 1) * tokens / ranks of a micro-batch's [batch seq] rows. Entry all-gathers,
// exit reduce-scatters; the backward does the same in reverse. The communication volume equals
// TensorRegion's; activations outside regions take 1 / ranks of the memory.
//
// Attention is inside a region and sees whole sequences, so shard boundaries need not align with
// sequences. Parameters outside regions have partial gradients: PartialGradients.
class SequenceRegion final : public TensorRegion {
 public:
  using TensorRegion::TensorRegion;

  bool splits_tokens() const override { return ranks().size() > 1; }
  Tensor enter(ExecContext& ctx, Arena& into, Tensor x) override;
  Tensor leave(ExecContext& ctx, Arena& into, Tensor partial) override;
  Tensor leave_backward(ExecContext& ctx, Tensor dy) override;
  Tensor start_enter_backward(ExecContext& ctx, Tensor partial) override;

 private:
  Tensor gathered(ExecContext& ctx, Arena& into, Tensor part) const;
  Tensor scattered(ExecContext& ctx, Arena& into, Tensor all) const;
};

}  // namespace trireme
