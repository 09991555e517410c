#pragma once
#include <optional>
#include <string>

#include "model/layers/attention.h"
#include "model/layers/mlp.h"
#include "model/layers/moe.h"
#include "model/layers/norm.h"
#include "model/stage/layer_config.h"

namespace trireme {

// Extension points of a stage; each outlives it.
struct Seams {
  Region& region;
  AttentionCore& attention;
  TokenExchange& experts = TokenExchange::alone();
  SequenceRanks& sequence = SequenceRanks::alone();
};

// A transformer block: x + attention(x), then x + MLP(x), or a mixture of experts, each with a norm
// of the branch's input, of its output, or of both.
class Block {
 public:
  struct Saved {
    Tensor x;    // the input
    Tensor mid;  // the sum after attention
    Norm::Saved attention_norm, attention_post_norm, mlp_norm, mlp_post_norm;
    Attention::Saved attention;
    Mlp::Saved mlp;
    Moe::Saved moe;              // instead of mlp
    DeferredGradients deferred;  // of a split backward
  };
  struct Spec {
    Recompute recompute = Recompute::kNone;
    MatmulPrecision precision = MatmulPrecision::kNative;
    LayerConfig layer;
    DropoutRates dropout = {};
    std::int64_t number = 0;  // in the model
  };
  // `rope_table`: as for Attention.
  Block(ParamStore& params, const std::string& name, const ModelConfig& config, const Spec& spec,
        Seams seams, const Tensor& rope_table);

  // y [tokens, hidden] is replaced; x must stay valid until the backward.
  void forward(ExecContext& ctx, Tensor y, Tensor x, const MicroBatch& batch, Saved& saved) const;
  // dx = the gradient of the input; dx is not dy. If run.deferred is set, dy must stay valid until
  // the deferred gradients are computed.
  void backward(ExecContext& ctx, Tensor dx, Tensor dy, const MicroBatch& batch,
                Saved& saved) const;
  // Forward only: y is replaced, nothing is saved; needs no more of either arena than forward.
  void evaluate(ExecContext& ctx, Tensor y, Tensor x, const MicroBatch& batch) const;
  // Decodes the next tokens of one sequence; y is replaced.
  void decode(ExecContext& ctx, Tensor y, Tensor x, Tensor positions, std::int64_t first,
              const KeyValueCache& cache) const;
  const Attention& attention() const { return attention_; }
  // Linear's, of attention and MLP.
  void take_codes(Arena& arena);
  void update_codes(ExecContext& ctx) const;
  // Of the micro-batches whose forwards follow.
  void set_recompute(Recompute recompute) { recompute_ = recompute; }

 private:
  void compute(ExecContext& ctx, Tensor y, Tensor x, const MicroBatch& batch, Recompute recompute,
               Saved& saved) const;
  MeasuredTensor until_mlp(ExecContext& ctx, Arena& norms, Tensor x, const MicroBatch& batch,
                           Recompute recompute, Saved& saved) const;
  MeasuredTensor enter_mlp(ExecContext& ctx, Arena& norms, Tensor x, Tensor mixed, bool measures,
                           Saved& saved) const;
  MeasuredTensor enter_mlp(ExecContext& ctx, Arena& norms, bool measures, Saved& saved) const;
  // The end of a branch, after attention or MLP, before it is added to the residual stream.
  struct BranchEnd {
    std::optional<Norm> norm;
    ops::Dropout dropout;
  };
  // Whether the last product of such a branch adds the residual stream.
  bool adds_in_product(const ExecContext& ctx, const BranchEnd& end, Tensor words) const;
  // A micro-batch's words of this rank's tokens.
  Tensor own_words(const MicroBatch& batch) const;
  Tensor end_branch(ExecContext& ctx, Tensor y, const BranchEnd& end, Tensor words,
                    Norm::Saved& saved) const;
  Tensor end_branch_backward(ExecContext& ctx, Tensor dy, const BranchEnd& end, Tensor words,
                             const Norm::Saved& saved) const;
  Tensor mlp_forward(ExecContext& ctx, Arena& into, const MeasuredTensor& x,
                     const MicroBatch& batch, Recompute recompute, Saved& saved,
                     const Residual& residual = {}) const;
  void restore(ExecContext& ctx, const MicroBatch& batch, Saved& saved) const;
  Recompute recompute_;
  const double residual_multiplier_;
  const Region& region_;
  std::optional<Norm> attention_norm_;
  Attention attention_;
  BranchEnd attention_end_;
  std::optional<Norm> mlp_norm_;
  std::optional<Mlp> mlp_;  // one of the two
  std::optional<Moe> moe_;
  BranchEnd mlp_end_;
};

// The norms of a model's residual stream.
NormSpec norm_spec(const ModelConfig& config);

}  // namespace trireme
