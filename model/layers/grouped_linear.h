#pragma once
#include "model/layers/linear.h"
#include "model/ops/grouped_bias.h"
#include "model/ops/grouped_gemm.h"

namespace trireme {

// A matrix for each of several groups of rows, y = x w_g^T + b_g: the weight is all groups'
// matrices one after the other, [groups * out, in], and so is the optional bias, [groups * out].
// `starts`: as for ops::grouped_gemm. If w is sharded by columns, only the first rank adds b, as in
// Linear.
class GroupedLinear {
 public:
  GroupedLinear(Weight& weight, Weight* bias, std::int64_t groups)
      : weight_(weight), bias_(bias), groups_(groups) {}

  std::int64_t out() const { return weight_.value.shape[0] / groups_; }
  std::int64_t in() const { return weight_.value.shape[1]; }

  // y [rows, out].
  void forward(ExecContext& ctx, Tensor y, Tensor x, Tensor starts, Slice part = {}) const {
    ops::grouped_gemm(ctx.stream, y, x, weight_.value, starts, /*transpose_b=*/true);
    if (bias_ && part.index == 0) ops::grouped_bias(ctx.stream, y, bias_->value, starts);
  }
  // In scratch.
  Tensor backward_input(ExecContext& ctx, Tensor dy, Tensor starts) const {
    const Tensor dx = ctx.scratch.take({dy.rows(), in()}, dy.dtype);
    ops::grouped_gemm(ctx.stream, dx, dy, weight_.value, starts, /*transpose_b=*/false);
    return dx;
  }
  // What the bias adds to the gradient of the weights of y's rows (ops::grouped_bias_dots).
  void add_bias_dots(ExecContext& ctx, Tensor dweights, Tensor dy, Tensor pairs, Tensor starts,
                     Slice part) const {
    if (!bias_ || part.index > 0) return;
    ops::grouped_bias_dots(ctx.stream, dweights, dy, bias_->value, pairs, starts);
  }
  // `weights`: of y's rows, which x has already. If ctx.deferred is set, none of the tensors is in
  // scratch.
  void backward_weight(ExecContext& ctx, Tensor dy, Tensor x, Tensor starts,
                       const ops::RowWeights& weights = {}) const {
    if (ctx.deferred) {
      ctx.deferred->add(ctx, {dy, x, starts, weights.weights, weights.pairs},
                        [this, dy, x, starts, weights](ExecContext& later) {
                          add_gradients(later, dy, x, starts, weights);
                        });
    } else {
      add_gradients(ctx, dy, x, starts, weights);
    }
  }

 private:
  void add_gradients(ExecContext& ctx, Tensor dy, Tensor x, Tensor starts,
                     const ops::RowWeights& weights) const {
    ops::grouped_gemm_weight(ctx.stream, weight_.grad, dy, x, starts,
                             Linear::gradient_accumulate(weight_));
    if (bias_) {
      ops::grouped_bias_backward(ctx.stream, bias_->grad, dy, weights, starts,
                                 Linear::gradient_accumulate(*bias_));
    }
  }
  Weight& weight_;
  Weight* bias_;
  std::int64_t groups_;
};

}  // namespace trireme
