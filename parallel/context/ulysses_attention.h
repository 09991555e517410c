#pragma once
#include <memory>

#include "model/layers/attention.h"
#include "parallel/comm/communicator.h"
#include "parallel/context/head_group.h"

namespace trireme {

// Context parallelism by all-to-all (DeepSpeed-Ulysses, Jacobs et al. 2023): ranks exchange their
// tokens for heads, so that each attends to the tokens of all of them with some of the heads. If
// these are not whole sequences, `between` attends to those of other such groups (two levels: Fang
// and Zhao 2024, Unified Sequence Parallelism). With fewer key-value heads than ranks, adjacent
// ranks have the same one, whose gradients are summed in rank order.
class UlyssesAttention final : public AttentionCore {
 public:
  // `ranks`, which exchange nothing else, outlives it.
  UlyssesAttention(Communicator& ranks, std::unique_ptr<AttentionCore> between)
      : ranks_(ranks), between_(std::move(between)) {}

  void forward(ExecContext& ctx, Tensor out, Tensor lse, Tensor qkv, const MicroBatch& batch,
               const ops::AttentionShape& shape) override;
  void backward(ExecContext& ctx, const ops::AttentionBackward& how, const MicroBatch& batch,
                const ops::AttentionShape& shape) override;

 private:
  HeadGroup group(const ops::Heads& heads, std::int64_t rank) const;
  template <class Take>
  Tensor to_heads(ExecContext& ctx, std::int64_t width, DType dtype, const MicroBatch& batch,
                  const Take& take) const;
  template <class Put>
  void to_tokens(ExecContext& ctx, Tensor of_heads, const MicroBatch& batch, const Put& put) const;
  ops::AttentionShape own_shape(const MicroBatch& after, const ops::AttentionShape& shape) const;

  Communicator& ranks_;
  std::unique_ptr<AttentionCore> between_;
};

}  // namespace trireme
