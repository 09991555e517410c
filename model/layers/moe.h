#pragma once
#include <optional>
#include <string>

#include "model/layers/entered_region.h"
#include "model/layers/experts.h"
#include "model/layers/linear.h"
#include "model/layers/micro_batch.h"
#include "model/layers/mlp.h"
#include "model/layers/recompute.h"
#include "model/layers/region.h"
#include "model/layers/sequence_ranks.h"
#include "model/ops/routing.h"

namespace trireme {

struct MoeSpec {
  std::int64_t hidden = 0, experts = 0, intermediate = 0;  // of an expert
  std::int64_t shared_intermediate = 0;                    // of the shared expert; 0: none
  Activation activation = Activation::kSilu;
  double swiglu_limit = 0;  // of ops::gate
  bool bias = false;        // of the router and of the experts' projections
  ops::Routing routing = {};
  bool has_correction_bias = false;  // of ops::route
  // Weight of the load balancing loss of a micro-batch, which is added to the loss of each token.
  double balance_loss = 0;
  double z_loss = 0;       // weight of the mean z-loss of a micro-batch, added likewise
  std::int64_t layer = 0;  // row in a RouterSink
  double init_scale = 0.02;
  double down_init_scale = 0.02;
};

// Mixture of experts (Shazeer et al. 2017), without dropped tokens (Gale et al. 2022,
// "MegaBlocks"): the sum of the top_k gated MLPs down(act(gate(x)) up(x)) that a router chooses for
// each token, multiplied by the router's weights, and of a shared expert that every token has (Dai
// et al. 2024, "DeepSeekMoE"). Ranks of an exchange have some of the experts; every rank of the
// region has a slice of each expert's width. The router is replicated.
class Moe {
 public:
  struct Saved {
    Linear::Saved in;  // the input
    Tensor logits;     // [tokens, experts], accumulator dtype
    ops::Routes routes;
    ops::ExpertRows rows;
    Tensor counts;  // [1, experts] F32: tokens of each expert
    Tensor loads;   // the same, or its mean over ranks that divide the sequences
    Tensor scale;   // MicroBatch's router_scale
    Experts::Saved experts;
    Mlp::Saved shared;
  };
  Moe(ParamStore& params, const std::string& name, const MoeSpec& spec, Region& region,
      TokenExchange& exchange, SequenceRanks& sequence);

  // Returns y in `into`. A single rank saves no rows of experts but `pre`; the region's input is
  // not saved if the backward recomputes norms, nor the rows of other ranks with selective
  // recomputation.
  Tensor forward(ExecContext& ctx, Arena& into, Tensor x, const MicroBatch& batch,
                 Recompute recompute, Saved& saved) const;
  // Forward without the last product: recomputes everything that backward reads.
  void restore(ExecContext& ctx, Tensor x, const MicroBatch& batch, Saved& saved) const;
  // Recomputes what the forward did not save: the input.
  void restore_dropped(ExecContext& ctx, Tensor x, Recompute recompute, Saved& saved) const;
  // Returns dx, in scratch. Adds the gradients of the router's losses.
  Tensor backward(ExecContext& ctx, Tensor dy, const Saved& saved) const;

 private:
  void report(ExecContext& ctx, const RouterSink& to, const Saved& saved) const;
  void choose(ExecContext& ctx, Tensor x, const MicroBatch& batch, Saved& saved) const;

  const MoeSpec spec_;
  Region& region_;
  SequenceRanks& sequence_;
  Weight& router_weight_;
  Weight* const router_bias_;      // null: none
  Weight* const correction_bias_;  // null: none
  const Linear router_;
  const Experts experts_;
  EnteredRegion entered_;
  const std::optional<Mlp> shared_;
};

}  // namespace trireme
