#pragma once
#include "model/layers/deferred_gradients.h"
#include "model/ops/gemm.h"
#include "model/params/param_store.h"
#include "model/tensor/arena.h"

namespace trireme {

// y = x w^T + b, with w [out, in] and b [out] or none. The weight may be several
// logical parameters stored back to back: their outputs stand side by side.
//
// Where w's columns are shared out, y is this holder's part of a sum over all: the
// first part has b, whose gradient is taken from the sum's, outside the region.
class Linear {
 public:
  struct Saved {
    Tensor x;  // [tokens, in]
  };
  Linear(Weight& weight, Weight* bias) : weight_(weight), bias_(bias) {}

  std::int64_t out() const { return weight_.value.shape[0]; }
  std::int64_t in() const { return weight_.value.shape[1]; }

  Tensor forward(Run& run, Arena& into, Tensor x, Saved& saved, Slice part = {}) const {
    saved.x = x;
    const Tensor y = into.take({x.rows(), out()}, x.dtype);
    const bool with_bias = bias_ && part.index == 0;
    ops::gemm(run.stream, y, x, weight_.value,
              {.transpose_b = true, .bias = with_bias ? bias_->value : Tensor{}});
    return y;
  }
  // The two halves are separate so that a caller may start sending dx before it works
  // on the weight, or put the weight off (run.deferred): dy then lies in run.lasting().
  Tensor backward_input(Run& run, Tensor dy) const {
    const Tensor dx = run.scratch.take({dy.rows(), in()}, dy.dtype);
    ops::gemm(run.stream, dx, dy, weight_.value, {});
    return dx;
  }
  void backward_weight(Run& run, Tensor dy, const Saved& saved) const {
    backward_weight(run, dy, dy, saved);
  }
  // `dsum`: the gradient of the sum over the holders, where that is not dy.
  void backward_weight(Run& run, Tensor dy, Tensor dsum, const Saved& saved) const {
    if (run.deferred) {
      run.deferred->add(run, *this, dy, dsum, saved.x);
    } else {
      add_gradients(run.stream, dy, dsum, saved.x);
    }
  }
  // The weight half itself; x as the forward saw it.
  void add_gradients(Stream& stream, Tensor dy, Tensor dsum, Tensor x) const {
    ops::gemm(stream, weight_.grad, dy, x, {.transpose_a = true, .into = gradient_into(weight_)});
    if (bias_) ops::bias_backward(stream, bias_->grad, dsum, gradient_into(*bias_));
  }

  // A parameter's first gradient of a step replaces, the others add.
  static ops::Into gradient_into(Weight& weight) {
    return weight.first_gradient() ? ops::Into::kReplace : ops::Into::kAdd;
  }

 private:
  Weight& weight_;
  Weight* bias_;
};

}  // namespace trireme
