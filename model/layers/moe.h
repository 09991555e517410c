#pragma once
#include <optional>
#include <string>

#include "model/layers/entered_region.h"
#include "model/layers/grouped_linear.h"
#include "model/layers/linear.h"
#include "model/layers/micro_batch.h"
#include "model/layers/mlp.h"
#include "model/layers/recompute.h"
#include "model/layers/region.h"
#include "model/ops/activation_kind.h"
#include "model/ops/expert_rows.h"
#include "model/ops/routing.h"

namespace trireme {

struct MoeSpec {
  std::int64_t hidden = 0, experts = 0, intermediate = 0;  // of an expert
  std::int64_t shared_intermediate = 0;                    // of the shared expert; 0: none
  Activation activation = Activation::kSilu;
  ops::Routing routing = {};
  bool has_router_bias = false;  // of the choice
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
// et al. 2024, "DeepSeekMoE"). Every rank of the region has a slice of each expert's width; the
// router is replicated.
class Moe {
 public:
  struct Saved {
    Linear::Saved in;  // the input
    Tensor logits;     // [tokens, experts], accumulator dtype
    ops::Routes routes;
    ops::ExpertRows rows;
    Tensor counts;  // [1, experts] F32: tokens of each expert
    Tensor scale;   // MicroBatch's router_scale
    Tensor pre;     // [tokens top_k, 2 intermediate], input of the activation
    Mlp::Saved shared;
  };
  Moe(ParamStore& params, const std::string& name, const MoeSpec& spec, Region& region);

  // Returns y in `into`. Saves no rows of experts but `pre`; the region's input too is not saved
  // with selective recomputation.
  Tensor forward(ExecContext& ctx, Arena& into, Tensor x, const MicroBatch& batch,
                 Recompute recompute, Saved& saved) const;
  // Forward without the last product: recomputes everything that backward reads.
  void restore(ExecContext& ctx, Tensor x, const MicroBatch& batch, Saved& saved) const;
  // Recomputes what a selective forward did not save: the input.
  void restore_dropped(ExecContext& ctx, Tensor x, Saved& saved) const;
  // Returns dx, in scratch. Adds the gradients of the router's losses.
  Tensor backward(ExecContext& ctx, Tensor dy, const Saved& saved) const;

 private:
  void report(ExecContext& ctx, const RouterSink& to, const Saved& saved) const;
  void choose(ExecContext& ctx, Tensor x, const MicroBatch& batch, Saved& saved) const;
  void enter_experts(ExecContext& ctx, Tensor x, Saved& saved) const;
  Tensor gathered(ExecContext& ctx, Arena& into, Tensor x, const Saved& saved) const;
  Tensor activate(ExecContext& ctx, Arena& into, Tensor pre) const;

  const MoeSpec spec_;
  Region& region_;
  Weight& router_weight_;
  const Linear router_;
  Weight* const router_bias_;  // null: none
  const GroupedLinear up_, down_;
  EnteredRegion entered_;
  const std::optional<Mlp> shared_;
};

}  // namespace trireme
