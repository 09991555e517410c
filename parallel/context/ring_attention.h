#pragma once
#include "model/layers/attention.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// Context parallelism by ring (Ring Attention, Liu et al. 2023): in step s a rank receives the keys
// and values of the rank s places before it, while it attends to those received before, and merges
// the results by their log-sum-exp. The gradients of received keys and values are sent back, and
// summed by their rank in the order of the steps. Two ranks of which the one sees no key of the
// other exchange nothing.
class RingAttention final : public AttentionCore {
 public:
  // `ranks`, and the same ranks for the gradients that they return, outlive it.
  RingAttention(Communicator& ranks, Communicator& back) : ranks_(ranks), back_(back) {}

  void forward(ExecContext& ctx, Tensor out, Tensor lse, Tensor qkv, const MicroBatch& batch,
               const ops::AttentionShape& shape) override;
  void backward(ExecContext& ctx, const ops::AttentionBackward& how, const MicroBatch& batch,
                const ops::AttentionShape& shape) override;

 private:
  class Keys;

  Communicator& ranks_;
  Communicator& back_;
};

}  // namespace trireme
