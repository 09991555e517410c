#pragma once
#include <string>

#include "model/layers/measured_tensor.h"
#include "model/layers/region.h"
#include "model/ops/norm_kind.h"
#include "model/params/param_store.h"
#include "model/tensor/arena.h"

namespace trireme {

struct NormSpec {
  NormKind kind = NormKind::kRmsNorm;
  std::int64_t width = 0;
  double epsilon = 1e-5;
  double gain_offset = 0;  // y = x / rms (offset + gain); the initial gain is 1 - offset
};

// RMSNorm or LayerNorm over the last dimension, fused with the preceding residual addition.
class Norm {
 public:
  struct Saved {
    Tensor x;              // input of the norm: x, or x + residual
    Tensor mean, inverse;  // per token; RMSNorm has no mean
  };
  Norm(ParamStore& params, const std::string& name, const NormSpec& spec, const Region& region);

  // y = norm(x), in `into`; if `measures`, with its magnitudes, in scratch.
  MeasuredTensor forward(ExecContext& ctx, Arena& into, Tensor x, Saved& saved,
                         bool measures = false) const;
  // sum = x + residual, saved; y = norm(sum).
  MeasuredTensor forward_add(ExecContext& ctx, Arena& into, Tensor x, Tensor residual, Saved& saved,
                             bool measures = false) const;
  // Recomputes y from the saved tensors, in ctx.lasting().
  Tensor again(ExecContext& ctx, const Saved& saved) const;
  // dx = the gradient through the norm, plus dresidual if given. dx may be dresidual.
  void backward(ExecContext& ctx, Tensor dx, Tensor dy, Tensor dresidual, const Saved& saved) const;

 private:
  MeasuredTensor normalize(ExecContext& ctx, Arena& into, Tensor sum, Tensor x, Tensor residual,
                           Saved& saved, bool measures) const;
  NormSpec spec_;
  Weight& gain_;
  Weight* bias_ = nullptr;
};

}  // namespace trireme
