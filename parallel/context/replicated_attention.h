#pragma once
#include "model/layers/attention.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// Context parallelism with the bits of one rank: every rank of the group has whole sequences and
// computes all of a layer but attention, of which it computes some of the rows. Each row's
// result and gradient is computed by one rank, over the same tiles as by a single one, and
// gathered. So attention's work is divided, but no memory.
class ReplicatedAttention final : public AttentionCore {
 public:
  // `ranks` outlives it.
  explicit ReplicatedAttention(Communicator& ranks) : ranks_(ranks) {}

  void forward(ExecContext& ctx, Tensor out, Tensor lse, Tensor qkv, const MicroBatch& batch,
               const ops::AttentionShape& shape) override;
  void backward(ExecContext& ctx, const ops::AttentionBackward& how, const MicroBatch& batch,
                const ops::AttentionShape& shape) override;

 private:
  Tensor own_rows(ExecContext& ctx, Tensor whole, const MicroBatch& batch) const;
  void gather(ExecContext& ctx, Tensor whole, Tensor own, const MicroBatch& batch) const;

  Communicator& ranks_;
};

}  // namespace trireme
