#pragma once
#include <string>

#include "model/layers/linear.h"
#include "model/layers/recompute.h"
#include "model/layers/region.h"
#include "model/ops/activation_kind.h"

namespace trireme {

struct MlpSpec {
  std::int64_t hidden = 0, intermediate = 0;
  Activation activation = Activation::kSilu;
  bool gated = true;
  bool bias = false;
  double init_scale = 0.02;
  double down_init_scale = 0.02;
  MatmulPrecision precision = MatmulPrecision::kNative;
};

// down(act(gate(x)) up(x)) (Shazeer 2020: SwiGLU, GeGLU) or down(act(up(x))). Gate and up are one
// matrix product.
class Mlp {
 public:
  struct Saved {
    Linear::Saved up, down;
    Tensor pre;  // [tokens, intermediate] or [tokens, 2 intermediate], input of the activation
  };
  Mlp(ParamStore& params, const std::string& name, const MlpSpec& spec, Region& region);

  // Returns y in `into`. With selective recomputation the output of the activation and the region's
  // input activations are not saved.
  Tensor forward(ExecContext& ctx, Arena& into, Tensor x, Recompute recompute, Saved& saved) const;
  // Forward without the last product: recomputes everything that backward reads.
  void restore(ExecContext& ctx, Tensor x, Saved& saved) const;
  // Recomputes what a selective forward did not save: the input and the output of the activation.
  void restore_dropped(ExecContext& ctx, Tensor x, Saved& saved) const;
  // Returns dx, in scratch.
  Tensor backward(ExecContext& ctx, Tensor dy, const Saved& saved) const;

 private:
  Tensor activate(ExecContext& ctx, Arena& into, Tensor pre) const;
  Region& region_;
  Activation activation_;
  bool gated_;
  Linear up_, down_;
};

}  // namespace trireme
