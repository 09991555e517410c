#pragma once
#include "model/layers/linear.h"
#include "model/ops/grouped_gemm.h"

namespace trireme {

// A matrix without bias for each of several groups of rows, y = x w_g^T: the weight is all groups'
// matrices one after the other, [groups * out, in]. `starts`: as for ops::grouped_gemm.
class GroupedLinear {
 public:
  GroupedLinear(Weight& weight, std::int64_t groups) : weight_(weight), groups_(groups) {}

  std::int64_t out() const { return weight_.value.shape[0] / groups_; }
  std::int64_t in() const { return weight_.value.shape[1]; }

  // y [rows, out].
  void forward(ExecContext& ctx, Tensor y, Tensor x, Tensor starts) const {
    ops::grouped_gemm(ctx.stream, y, x, weight_.value, starts, /*transpose_b=*/true);
  }
  // In scratch.
  Tensor backward_input(ExecContext& ctx, Tensor dy, Tensor starts) const {
    const Tensor dx = ctx.scratch.take({dy.rows(), in()}, dy.dtype);
    ops::grouped_gemm(ctx.stream, dx, dy, weight_.value, starts, /*transpose_b=*/false);
    return dx;
  }
  // If ctx.deferred is set, none of the tensors is in scratch.
  void backward_weight(ExecContext& ctx, Tensor dy, Tensor x, Tensor starts) const {
    if (ctx.deferred) {
      ctx.deferred->add(ctx, {dy, x, starts}, [this, dy, x, starts](ExecContext& later) {
        add_gradient(later, dy, x, starts);
      });
    } else {
      add_gradient(ctx, dy, x, starts);
    }
  }

 private:
  void add_gradient(ExecContext& ctx, Tensor dy, Tensor x, Tensor starts) const {
    ops::grouped_gemm_weight(ctx.stream, weight_.grad, dy, x, starts,
                             Linear::gradient_accumulate(weight_));
  }
  Weight& weight_;
  std::int64_t groups_;
};

}  // namespace trireme
