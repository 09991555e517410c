#pragma once
#include "model/layers/linear.h"
#include "model/layers/token_exchange.h"
#include "model/ops/grouped_bias.h"
#include "model/ops/grouped_gemm.h"

namespace trireme {

// A matrix for each of several experts, y = x w_e^T + b_e, for the rows of a round: the weight is
// all experts' matrices one after the other, [experts * out, in], and so is the optional bias,
// [experts * out]. If w is sharded by columns, only the first rank adds b, as in Linear.
class GroupedLinear {
 public:
  GroupedLinear(Weight& weight, Weight* bias, std::int64_t experts)
      : weight_(weight), bias_(bias), experts_(experts) {}

  std::int64_t out() const { return weight_.value.shape[0] / experts_; }
  std::int64_t in() const { return weight_.value.shape[1]; }

  // y [rows, out].
  void forward(ExecContext& ctx, Tensor y, Tensor x, const ExpertRound& round,
               Slice part = {}) const {
    ops::grouped_gemm(ctx.stream, y, x, weight_.value, round.starts, /*transpose_b=*/true);
    if (bias_ && part.index == 0) ops::grouped_bias(ctx.stream, y, bias_->value, round.starts);
  }
  // dx [rows, in].
  void backward_input(ExecContext& ctx, Tensor dx, Tensor dy, const ExpertRound& round) const {
    ops::grouped_gemm(ctx.stream, dx, dy, weight_.value, round.starts, /*transpose_b=*/false);
  }
  // What the bias adds to the gradient of the weights of y's rows (ops::grouped_bias_dots).
  void add_bias_dots(ExecContext& ctx, Tensor dweights, Tensor dy, Tensor pairs,
                     const ExpertRound& round, Slice part) const {
    if (!bias_ || part.index > 0) return;
    ops::grouped_bias_dots(ctx.stream, dweights, dy, bias_->value, pairs, round.starts);
  }
  // `weights`: of y's rows, which x has already. If ctx.deferred is set, none of the tensors is in
  // scratch.
  void backward_weight(ExecContext& ctx, Tensor dy, Tensor x, const ExpertRound& round,
                       const ops::RowWeights& weights = {}) const {
    const Groups groups{round.first_rank, round.ranks, round.starts};
    if (ctx.deferred) {
      ctx.deferred->add(ctx, {dy, x, groups.starts, weights.weights, weights.pairs},
                        [this, dy, x, groups, weights](ExecContext& later) {
                          add_gradients(later, dy, x, groups, weights);
                        });
    } else {
      add_gradients(ctx, dy, x, groups, weights);
    }
  }

 private:
  struct Groups {
    int first_rank, ranks;
    Tensor starts;
  };
  // Where the gradient by the tokens of a rank goes, and how.
  struct Gradient {
    Tensor sum;
    ops::Accumulate accumulate;
  };
  static Gradient gradient(Weight& weight, int rank) {
    const ops::Accumulate accumulate = Linear::gradient_accumulate(weight);
    if (weight.grads_by_rank.empty()) return {weight.grad, accumulate};
    return {weight.grads_by_rank.at(rank), ops::Accumulate::kReplace};
  }
  // One rank's rows after the other's, so that the sums are those of single ranks.
  void add_gradients(ExecContext& ctx, Tensor dy, Tensor x, const Groups& groups,
                     const ops::RowWeights& weights) const {
    const bool has_one_sum = weight_.grads_by_rank.empty();
    if (has_one_sum && groups.ranks > 0) {
      ops::grouped_gemm_weight(ctx.stream, weight_.grad, dy, x, groups.starts,
                               Linear::gradient_accumulate(weight_));
    }
    for (int r = 0; r < groups.ranks; ++r) {
      const Tensor starts = groups.starts.slice(r * experts_, experts_ + 1);
      if (!has_one_sum) {
        const Gradient of_weight = gradient(weight_, groups.first_rank + r);
        ops::grouped_gemm_weight(ctx.stream, of_weight.sum, dy, x, starts, of_weight.accumulate);
      }
      if (!bias_) continue;
      const Gradient of_bias = gradient(*bias_, groups.first_rank + r);
      ops::grouped_bias_backward(ctx.stream, of_bias.sum, dy, weights, starts, of_bias.accumulate,
                                 groups.ranks);
    }
  }
  Weight& weight_;
  Weight* bias_;
  std::int64_t experts_;
};

}  // namespace trireme
