#pragma once
#include "model/layers/deferred_gradients.h"
#include "model/layers/factors.h"
#include "model/layers/region.h"
#include "model/ops/gemm.h"
#include "model/params/param_store.h"
#include "model/tensor/arena.h"
#include "model/tensor/float8.h"

namespace trireme {

// y = x w^T + b, with w [out, in] and b [out] or none. The weight may be several
// logical parameters stored back to back: their outputs stand side by side.
//
// Where w's columns are shared out, y is this holder's part of a sum over all: the
// first part has b, whose gradient is taken from the sum's, outside the region.
class Linear {
 public:
  struct Saved {
    Tensor x{};  // [tokens, in]
    // Instead of x where tokens are shared out: this holder's rows of it, from which
    // Region::enter makes x again.
    Tensor own{};
  };
  Linear(Weight& weight, Weight* bias, Factors factors = Factors::kAsStored)
      : weight_(weight), bias_(bias), factors_(factors) {}

  std::int64_t out() const { return weight_.value.shape[0]; }
  std::int64_t in() const { return weight_.value.shape[1]; }

  Tensor forward(Run& run, Arena& into, Tensor x, Saved& saved, Slice part = {}) const {
    saved.x = x;
    const Tensor y = into.take({x.rows(), out()}, x.dtype);
    const bool with_bias = bias_ && part.index == 0;
    multiply(run, y, {x, Float8Format::kE4M3}, weight_.value,
             {.transpose_b = true, .bias = with_bias ? bias_->value : Tensor{}});
    return y;
  }
  // The two halves are separate so that a caller may start sending dx before it works
  // on the weight, or put the weight off (run.deferred): dy then lies in run.lasting().
  Tensor backward_input(Run& run, Tensor dy) const {
    const Tensor dx = run.scratch.take({dy.rows(), in()}, dy.dtype);
    multiply(run, dx, {dy, Float8Format::kE5M2}, weight_.value, {});
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
      add_gradients(run, dy, dsum, saved.x);
    }
  }
  // The weight half itself; x as the forward saw it.
  void add_gradients(Run& run, Tensor dy, Tensor dsum, Tensor x) const {
    multiply(run, weight_.grad, {dy, Float8Format::kE5M2}, x,
             {.transpose_a = true, .into = gradient_into(weight_)});
    if (bias_) ops::bias_backward(run.stream, bias_->grad, dsum, gradient_into(*bias_));
  }

  // A parameter's first gradient of a step replaces, the others add.
  static ops::Into gradient_into(Weight& weight) {
    return weight.first_gradient() ? ops::Into::kReplace : ops::Into::kAdd;
  }

 private:
  struct Left {
    Tensor values;
    Float8Format format;  // where factors are rounded; the right ones are E4M3
  };
  void multiply(Run& run, Tensor c, const Left& a, Tensor b, const ops::Gemm& how) const;

  Weight& weight_;
  Weight* bias_;
  Factors factors_;
};

// x of what a forward has saved inside a region; made again in run.lasting() where it keeps its own
// rows only.
Tensor entered(Run& run, Region& region, const Linear::Saved& saved);

}  // namespace trireme
