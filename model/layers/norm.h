#pragma once
#include <string>

#include "model/layers/norm_kind.h"
#include "model/layers/region.h"
#include "model/params/param_store.h"
#include "model/tensor/arena.h"

namespace trireme {

// RMSNorm or LayerNorm over the last dimension, with the residual addition that
// precedes it folded in.
class Norm {
 public:
  struct Saved {
    Tensor x;                // what was normalised: the input, or input + residual
    Tensor mean, inv_scale;  // per token; no mean for RMSNorm
  };
  Norm(ParamStore& params, const std::string& name, NormKind kind, std::int64_t width,
       double epsilon, const Region& region);

  // y = norm(x), into `into`.
  Tensor forward(Run& run, Arena& into, Tensor x, Saved& saved) const;
  // sum = x + residual, kept; y = norm(sum), into `into`.
  Tensor forward_add(Run& run, Arena& into, Tensor x, Tensor residual, Saved& saved) const;
  // y again, lasting, from what forward kept.
  Tensor again(Run& run, const Saved& saved) const;
  // dx = the gradient through the norm (+ dresidual, when given). dx may be dresidual.
  void backward(Run& run, Tensor dx, Tensor dy, Tensor dresidual, const Saved& saved) const;

 private:
  Tensor normalise(Run& run, Arena& into, Tensor sum, Tensor x, Tensor residual,
                   Saved& saved) const;
  NormKind kind_;
  double epsilon_;
  Weight& gain_;
  Weight* bias_ = nullptr;
};

}  // namespace trireme
