#pragma once
#include "model/layers/attention.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// Context parallelism by all-gather (Llama 3, Dubey et al. 2024): every rank gathers the keys and
// values of whole sequences and attends to them with its own queries; the gradients of keys and
// values are reduce-scattered. Heads are gathered a few at a time, so that what is gathered takes
// about the memory of a rank's own queries, keys and values.
class GatheredAttention final : public AttentionCore {
 public:
  // `ranks` outlives it.
  explicit GatheredAttention(Communicator& ranks) : ranks_(ranks) {}

  void forward(ExecContext& ctx, Tensor out, Tensor lse, Tensor qkv, const MicroBatch& batch,
               const ops::AttentionShape& shape) override;
  void backward(ExecContext& ctx, const ops::AttentionBackward& how, const MicroBatch& batch,
                const ops::AttentionShape& shape) override;

 private:
  Tensor gathered(ExecContext& ctx, Tensor own, const MicroBatch& batch) const;

  Communicator& ranks_;
};

}  // namespace trireme
