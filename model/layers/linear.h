#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

#include "model/layers/measured_tensor.h"
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

// For a branch's last matrix product, on a rank that computes it alone: it writes sum = x + the
// product. x stays valid, and is not sum.
struct Residual {
  Tensor x{}, sum{};
  explicit operator bool() const { return static_cast<bool>(sum); }
};

// Precision of the operands of a linear layer's three matrix products. In float8 each operand has
// its own per-tensor scale from its current values: activations and weights as E4M3, gradients as
// E5M2. Every shard of a weight, every micro-batch and every chunk of one has its own scale.
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
    // In float8, of x's codes in the forward, for those of its transpose; empty: not known.
    Tensor inverse_scale{};
    // In float8, of x, where the scale is not known.
    Tensor magnitudes{};
  };
  // The gradient of y, which both halves of a backward read.
  struct Gradient {
    explicit Gradient(Tensor y) : Gradient(y, y) {}
    explicit Gradient(const MeasuredTensor& y) : Gradient(y.values) { magnitudes = y.magnitudes; }
    Gradient(Tensor y, Tensor sum) : dy(y), dsum(sum) {}
    Tensor dy;
    // The gradient of the sum over ranks, if that is not dy; empty: the bias's gradient is computed
    // with that of other rows.
    Tensor dsum;
    // In float8, of dy's transpose: backward_input makes it in ctx.lasting() for the weight
    // gradient.
    ops::Float8Matrix transposed{};
    Tensor magnitudes{};  // of dy, for backward_input
  };
  Linear(Weight& weight, Weight* bias, MatmulPrecision precision = MatmulPrecision::kNative)
      : weight_(weight), bias_(bias), precision_(precision) {}

  // Memory for codes of the weight, in float8, which update_codes() then makes if they are stale:
  // before the first use of each step. The same bits as without.
  void take_codes(Arena& arena);
  void update_codes(ExecContext& ctx) const;

  std::int64_t out() const { return weight_.value.shape[0]; }
  std::int64_t in() const { return weight_.value.shape[1]; }

  // Returns y in `into`; or replaces y.
  Tensor forward(ExecContext& ctx, Arena& into, const MeasuredTensor& x, Saved& saved,
                 Slice part = {}) const;
  void forward(ExecContext& ctx, Tensor y, const MeasuredTensor& x, Saved& saved,
               Slice part = {}) const;
  // residual.sum = residual.x + y.
  void forward_add(ExecContext& ctx, const Residual& residual, const MeasuredTensor& x,
                   Saved& saved) const;
  // The two halves are separate so that a caller can send dx before it computes the weight
  // gradient, or defer the weight gradient (ctx.deferred). Returns dx, in scratch; or replaces dx.
  Tensor backward_input(ExecContext& ctx, Gradient& gradient) const;
  void backward_input(ExecContext& ctx, Tensor dx, Gradient& gradient) const;
  // x as in the forward.
  void backward_weight(ExecContext& ctx, const Gradient& gradient, const Saved& saved) const;
  // Arena for dy. In float8 a weight gradient reads codes of dy, and only a bias's reads dy itself.
  Arena& gradient_arena(const ExecContext& ctx) const {
    return is_float8() && !bias_ ? ctx.scratch : ctx.lasting();
  }

  bool is_float8() const { return precision_ == MatmulPrecision::kFloat8; }
  // For the magnitudes of a tensor that this layer quantizes; empty if it does not.
  Tensor take_magnitudes(Arena& arena) const {
    return is_float8() ? arena.take({ops::kMagnitudes}, DType::kI32) : Tensor{};
  }

  // The first gradient of a step replaces, later ones accumulate.
  static ops::Accumulate gradient_accumulate(Weight& weight) {
    return weight.first_gradient() ? ops::Accumulate::kReplace : ops::Accumulate::kAdd;
  }

 private:
  // The weight's codes, or those of its transpose; in scratch if none are kept.
  ops::Float8Matrix codes(ExecContext& ctx, bool transpose) const;
  void multiply(ExecContext& ctx, Tensor y, const MeasuredTensor& x, Tensor bias, Tensor addend,
                Saved& saved) const;
  void add_gradients(ExecContext& ctx, const Gradient& gradient, const Saved& saved) const;

  Weight& weight_;
  Weight* bias_;
  MatmulPrecision precision_;
};

// x inside the region, in `into` if it is another tensor.
MeasuredTensor enter(ExecContext& ctx, Region& region, Arena& into, const MeasuredTensor& x);

// What a forward saved inside a region, with x; recomputed in ctx.lasting() if only this rank's
// rows were saved.
Linear::Saved entered(ExecContext& ctx, Region& region, const Linear::Saved& saved);

}  // namespace trireme
