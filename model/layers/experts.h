#pragma once
#include <string>
#include <vector>

#include "model/layers/grouped_linear.h"
#include "model/layers/region.h"
#include "model/layers/token_exchange.h"
#include "model/ops/activation_kind.h"
#include "model/ops/expert_rows.h"
#include "model/ops/grouped_bias.h"

namespace trireme {

struct ExpertsSpec {
  std::int64_t hidden = 0, count = 0, intermediate = 0;  // of an expert
  Activation activation = Activation::kSilu;
  double swiglu_limit = 0;  // of ops::gate
  bool bias = false;        // of the projections
  double init_scale = 0.02;
  double down_init_scale = 0.02;
};

// The gated MLPs down(act(gate(x)) up(x)) of a mixture of experts, for rows that are sorted by
// expert. Ranks of an exchange have some of the experts each; every rank of the region has a slice
// of each expert's width. `pairs`: number of this rank's rows (ops::ExpertRows).
class Experts {
 public:
  struct Saved {
    std::vector<ExpertRound> rounds;
    // Of the first round; the other rounds are recomputed.
    Tensor dispatched;  // [rows, hidden], the input; empty: it is dispatched again
    Tensor pre;         // [rows, 2 intermediate], input of the activation
  };
  // What the backward of down hands on.
  struct Gradients {
    Tensor dpre;  // of the first round, in ctx.lasting()
    // Of all rows of this rank, from other ranks; empty on a single rank.
    Tensor dx;        // [pairs, hidden]
    Tensor dweights;  // [pairs, 1]
  };
  Experts(ParamStore& params, const std::string& name, const ExpertsSpec& spec,
          const Region& region, TokenExchange& exchange);

  // First: the rounds of the rows, of which each expert has `counts` [1, experts] F32.
  void plan(ExecContext& ctx, Tensor counts, const ops::ExpertRows& rows, Saved& saved) const {
    exchange_.plan(ctx, saved.rounds, counts, rows);
  }
  // Until the input of the activation. A single rank does not save the dispatched rows.
  void enter(ExecContext& ctx, Tensor x, const ops::ExpertRows& rows, bool saves_rows,
             Saved& saved) const;
  // After enter(): returns the results [pairs, hidden] in scratch; the region's sum is left.
  Tensor leave(ExecContext& ctx, Tensor x, const ops::ExpertRows& rows, const Saved& saved) const;

  // The backward in three steps. From dy [tokens, hidden], the gradient of the tokens' weighted
  // sums: adds down's weight gradients; dweights [tokens, top_k] = this rank's part of those of
  // `weights`.
  Gradients backward_down(ExecContext& ctx, Tensor x, Tensor dy, Tensor weights, Tensor dweights,
                          const ops::ExpertRows& rows, const Saved& saved) const;
  // Returns dx [pairs, hidden], in scratch.
  Tensor backward_up(ExecContext& ctx, const Gradients& gradients, const ops::ExpertRows& rows,
                     const Saved& saved) const;
  // Adds up's weight gradients.
  void backward_weight(ExecContext& ctx, Tensor x, const Gradients& gradients,
                       const ops::ExpertRows& rows, const Saved& saved) const;

 private:
  // The rows of one round.
  struct Pass {
    const ExpertRound& round;
    const ops::ExpertRows& rows;
  };
  template <class Body>
  void each_further_round(const ops::ExpertRows& rows, const Saved& saved, const Body& body) const;
  Tensor take_rows(Arena& arena, std::int64_t width, DType dtype, const Pass& pass) const;
  Tensor dispatched(ExecContext& ctx, Arena& into, Tensor x, const Pass& pass) const;
  Tensor activate(ExecContext& ctx, Arena& into, Tensor pre, const Pass& pass) const;
  Tensor results(ExecContext& ctx, Tensor pre, const Pass& pass) const;
  ops::RowWeights weigh(ExecContext& ctx, Tensor drows, Tensor act, Tensor dact, Tensor weights,
                        Tensor dweights, const Gradients& gradients, const Pass& pass) const;
  Tensor round_backward_down(ExecContext& ctx, Tensor dy, Tensor pre, Tensor weights,
                             Tensor dweights, const Gradients& gradients, const Pass& pass) const;
  Tensor round_backward_up(ExecContext& ctx, Tensor dpre, const Gradients& gradients,
                           const Pass& pass) const;

  const ExpertsSpec spec_;
  const Slice slice_;  // of the region
  TokenExchange& exchange_;
  const GroupedLinear up_, down_;
};

}  // namespace trireme
