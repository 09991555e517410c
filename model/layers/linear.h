#pragma once
#include "model/ops/gemm.h"
#include "model/params/param_store.h"
#include "model/tensor/arena.h"

namespace trireme {

// y = x w^T + b, with w [out, in] and b [out] or none. The weight may be several
// logical parameters stored back to back: their outputs stand side by side.
class Linear {
 public:
  struct Saved {
    Tensor x;  // [tokens, in]
  };
  Linear(Weight& weight, Weight* bias) : weight_(weight), bias_(bias) {}

  std::int64_t out() const { return weight_.value.shape[0]; }
  std::int64_t in() const { return weight_.value.shape[1]; }

  Tensor forward(Run& run, Arena& into, Tensor x, Saved& saved) const {
    saved.x = x;
    const Tensor y = into.take({x.rows(), out()}, x.dtype);
    ops::gemm(run.stream, y, x, weight_.value,
              {.transpose_b = true, .bias = bias_ ? bias_->value : Tensor{}});
    return y;
  }
  // The two halves are separate so that a caller may start sending dx before
  // it works on the weight.
  Tensor backward_input(Run& run, Tensor dy) const {
    const Tensor dx = run.scratch.take({dy.rows(), in()}, dy.dtype);
    ops::gemm(run.stream, dx, dy, weight_.value, {});
    return dx;
  }
  void backward_weight(Run& run, Tensor dy, const Saved& saved) const {
    ops::gemm(run.stream, weight_.grad, dy, saved.x,
              {.transpose_a = true, .into = gradient_into(weight_)});
    if (bias_) ops::bias_backward(run.stream, bias_->grad, dy, gradient_into(*bias_));
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
