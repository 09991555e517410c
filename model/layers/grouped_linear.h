#pragma once
#include "model/layers/linear.h"
#include "model/layers/token_exchange.h"
#include "model/ops/grouped_gemm.h"

namespace trireme {

// A matrix without bias for each of several experts, y = x w_e^T, for the rows of a round: the
// weight is all experts' matrices one after the other, [experts * out, in].
class GroupedLinear {
 public:
  GroupedLinear(Weight& weight, std::int64_t experts) : weight_(weight), experts_(experts) {}

  std::int64_t out() const { return weight_.value.shape[0] / experts_; }
  std::int64_t in() const { return weight_.value.shape[1]; }

  // y [rows, out].
  void forward(ExecContext& ctx, Tensor y, Tensor x, const ExpertRound& round) const {
    ops::grouped_gemm(ctx.stream, y, x, weight_.value, round.starts, /*transpose_b=*/true);
  }
  // dx [rows, in].
  void backward_input(ExecContext& ctx, Tensor dx, Tensor dy, const ExpertRound& round) const {
    ops::grouped_gemm(ctx.stream, dx, dy, weight_.value, round.starts, /*transpose_b=*/false);
  }
  // If ctx.deferred is set, none of the tensors is in scratch.
  void backward_weight(ExecContext& ctx, Tensor dy, Tensor x, const ExpertRound& round) const {
    const Groups groups{round.first_rank, round.ranks, round.starts};
    if (ctx.deferred) {
      ctx.deferred->add(ctx, {dy, x, groups.starts}, [this, dy, x, groups](ExecContext& later) {
        add_gradient(later, dy, x, groups);
      });
    } else {
      add_gradient(ctx, dy, x, groups);
    }
  }

 private:
  struct Groups {
    int first_rank, ranks;
    Tensor starts;
  };
  // One rank's rows after the other's, so that the sums are those of single ranks.
  void add_gradient(ExecContext& ctx, Tensor dy, Tensor x, const Groups& groups) const {
    const bool are_apart = !weight_.grads_by_rank.empty();
    for (int r = 0; r < groups.ranks; ++r) {
      const bool is_first = weight_.first_gradient();
      const Tensor& sum =
          are_apart ? weight_.grads_by_rank.at(groups.first_rank + r) : weight_.grad;
      const bool replaces = is_first || are_apart;
      ops::grouped_gemm_weight(ctx.stream, sum, dy, x,
                               groups.starts.slice(r * experts_, experts_ + 1),
                               replaces ? ops::Accumulate::kReplace : ops::Accumulate::kAdd);
    }
  }
  Weight& weight_;
  std::int64_t experts_;
};

}  // namespace trireme
