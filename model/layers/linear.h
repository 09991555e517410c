#pragma once
#include "model/layers/deferred_gradients.h"
#include "model/layers/factors.h"
#include "model/layers/region.h"
#include "model/ops/gemm.h"
#include "model/params/param_store.h"
#include "model/tensor/arena.h"
#include "model/tensor/float8.h"

namespace trireme {

// y = x w^T + b, with w [out, in] and optional b [out]. The weight may be several logical
// parameters stored contiguously, whose outputs are concatenated (fused projections).
//
// If w is sharded by columns (row-parallel), y is this rank's term of a sum over ranks: only the
// first rank adds b, whose gradient is computed from the gradient of the sum, outside the region.
class Linear {
 public:
  struct Saved {
    Tensor x{};  // [tokens, in]
    // Instead of x if tokens are sharded: this rank's rows of x, from which Region::enter
    // recomputes x.
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
  // The two halves are separate so that a caller can send dx before it computes the weight
  // gradient, or defer the weight gradient (run.deferred): dy is then in run.lasting().
  Tensor backward_input(Run& run, Tensor dy) const {
    const Tensor dx = run.scratch.take({dy.rows(), in()}, dy.dtype);
    multiply(run, dx, {dy, Float8Format::kE5M2}, weight_.value, {});
    return dx;
  }
  void backward_weight(Run& run, Tensor dy, const Saved& saved) const {
    backward_weight(run, dy, dy, saved);
  }
  // `dsum`: the gradient of the sum over ranks, if that is not dy.
  void backward_weight(Run& run, Tensor dy, Tensor dsum, const Saved& saved) const {
    if (run.deferred) {
      run.deferred->add(run, *this, dy, dsum, saved.x);
    } else {
      add_gradients(run, dy, dsum, saved.x);
    }
  }
  // Computes the weight and bias gradients; x as in the forward.
  void add_gradients(Run& run, Tensor dy, Tensor dsum, Tensor x) const {
    multiply(run, weight_.grad, {dy, Float8Format::kE5M2}, x,
             {.transpose_a = true, .into = gradient_into(weight_)});
    if (bias_) ops::bias_backward(run.stream, bias_->grad, dsum, gradient_into(*bias_));
  }

  // The first gradient of a step replaces, later ones accumulate.
  static ops::Into gradient_into(Weight& weight) {
    return weight.first_gradient() ? ops::Into::kReplace : ops::Into::kAdd;
  }

 private:
  struct Left {
    Tensor values;
    Float8Format format;  // format of `values` in float8; right operands are E4M3
  };
  void multiply(Run& run, Tensor c, const Left& a, Tensor b, const ops::Gemm& how) const;

  Weight& weight_;
  Weight* bias_;
  Factors factors_;
};

// The x that a forward saved inside a region; recomputed in run.lasting() if only this rank's rows
// were saved.
Tensor entered(Run& run, Region& region, const Linear::Saved& saved);

}  // namespace trireme
