#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

#include "model/layers/region.h"
#include "model/ops/gemm.h"
#include "model/params/param_store.h"
#include "model/tensor/arena.h"
#include "model/tensor/float8.h"

namespace trireme {

// Weight gradients that a backward deferred, the W half of zero-bubble schedules (Qi et al. 2023,
// "Zero Bubble Pipeline Parallelism"). Their inputs stay in ctx.saved.
class DeferredGradients {
 public:
  using Compute = std::function<void(ExecContext&)>;
  // `compute` reads `inputs`, of which none is in scratch.
  void add(const ExecContext& ctx, std::initializer_list<Tensor> inputs, Compute compute);
  // Computes the gradients in the order in which they were deferred since clear().
  void compute(ExecContext& ctx);
  void clear() { deferred_.clear(); }

 private:
  std::vector<Compute> deferred_;
};

// Precision of the operands of a linear layer's three matrix products. In float8 each operand has
// its own per-tensor scale from its current values: activations and weights as E4M3, gradients as
// E5M2. Every shard of a weight and every micro-batch has its own scale.
enum class MatmulPrecision : std::uint8_t { kNative, kFloat8 };

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
  Linear(Weight& weight, Weight* bias, MatmulPrecision precision = MatmulPrecision::kNative)
      : weight_(weight), bias_(bias), precision_(precision) {}

  std::int64_t out() const { return weight_.value.shape[0]; }
  std::int64_t in() const { return weight_.value.shape[1]; }

  Tensor forward(ExecContext& ctx, Arena& into, Tensor x, Saved& saved, Slice part = {}) const {
    saved.x = x;
    const Tensor y = into.take({x.rows(), out()}, x.dtype);
    const bool with_bias = bias_ && part.index == 0;
    multiply(ctx, y, {x, Float8Format::kE4M3}, weight_.value,
             {.transpose_b = true, .bias = with_bias ? bias_->value : Tensor{}});
    return y;
  }
  // The two halves are separate so that a caller can send dx before it computes the weight
  // gradient, or defer the weight gradient (run.deferred): dy is then in ctx.lasting().
  Tensor backward_input(ExecContext& ctx, Tensor dy) const {
    const Tensor dx = ctx.scratch.take({dy.rows(), in()}, dy.dtype);
    multiply(ctx, dx, {dy, Float8Format::kE5M2}, weight_.value, {});
    return dx;
  }
  void backward_weight(ExecContext& ctx, Tensor dy, const Saved& saved) const {
    backward_weight(ctx, dy, dy, saved);
  }
  // `dsum`: the gradient of the sum over ranks, if that is not dy.
  void backward_weight(ExecContext& ctx, Tensor dy, Tensor dsum, const Saved& saved) const {
    if (ctx.deferred) {
      ctx.deferred->add(
          ctx, {dy, dsum, saved.x},
          [this, dy, dsum, x = saved.x](ExecContext& later) { add_gradients(later, dy, dsum, x); });
    } else {
      add_gradients(ctx, dy, dsum, saved.x);
    }
  }
  // Computes the weight and bias gradients; x as in the forward.
  void add_gradients(ExecContext& ctx, Tensor dy, Tensor dsum, Tensor x) const {
    multiply(ctx, weight_.grad, {dy, Float8Format::kE5M2}, x,
             {.transpose_a = true, .accumulate = gradient_accumulate(weight_)});
    if (bias_) ops::bias_backward(ctx.stream, bias_->grad, dsum, gradient_accumulate(*bias_));
  }

  // The first gradient of a step replaces, later ones accumulate.
  static ops::Accumulate gradient_accumulate(Weight& weight) {
    return weight.first_gradient() ? ops::Accumulate::kReplace : ops::Accumulate::kAdd;
  }

 private:
  struct Left {
    Tensor values;
    Float8Format format;  // format of `values` in float8; right operands are E4M3
  };
  void multiply(ExecContext& ctx, Tensor c, const Left& a, Tensor b, const ops::Gemm& how) const;

  Weight& weight_;
  Weight* bias_;
  MatmulPrecision precision_;
};

// The x that a forward saved inside a region; recomputed in ctx.lasting() if only this rank's rows
// were saved.
Tensor entered(ExecContext& ctx, Region& region, const Linear::Saved& saved);

}  // namespace trireme
