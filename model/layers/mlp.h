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
//
// Where all is recomputed, tokens are computed in chunks, so that what lies between x and y exists
// for one chunk at a time (Liu and Abbeel 2023, "Blockwise Parallel Transformer"). Regions are
// entered and left once, with all tokens.
class Mlp {
 public:
  struct Saved {
    Linear::Saved up{}, down{};
    // [tokens, intermediate] or [tokens, 2 intermediate], input of the activation; empty: backward
    // recomputes it.
    Tensor pre{};
  };
  Mlp(ParamStore& params, const std::string& name, const MlpSpec& spec, Region& region);

  // Linear's, of its projections.
  void take_codes(Arena& arena);
  void update_codes(ExecContext& ctx) const;

  // Returns y in `into`, or residual.sum. If the backward recomputes norms, the region's input
  // activations are not saved; with selective recomputation the output of the activation is not
  // either. With full recomputation of several chunks only x is.
  Tensor forward(ExecContext& ctx, Arena& into, const MeasuredTensor& x, Recompute recompute,
                 Saved& saved, const Residual& residual = {}) const;
  // Whether `tokens` of x are quantized at once, not in chunks nor as what a region makes of them.
  bool quantizes_input(const ExecContext& ctx, std::int64_t tokens, Recompute recompute) const {
    return up_.is_float8() && !region_.splits_tokens() &&
           (recompute != Recompute::kFull || chunk_rows(ctx, tokens) == tokens);
  }
  // After full recomputation, for a backward that recomputes all but x.
  void restore(ExecContext& ctx, const MeasuredTensor& x, Saved& saved) const;
  // Recomputes what the forward did not save: the input and the output of the activation.
  void restore_dropped(ExecContext& ctx, Tensor x, Recompute recompute, Saved& saved) const;
  // Returns dx, in scratch.
  Tensor backward(ExecContext& ctx, Tensor dy, const Saved& saved) const;

  // Tokens per chunk on one of `ranks` that divide the width, and with it the memory that a token
  // takes: whole tiles, and about as many in each chunk.
  static std::int64_t chunk_rows(Device device, std::int64_t tokens, std::int64_t ranks);

 private:
  std::int64_t chunk_rows(const ExecContext& ctx, std::int64_t tokens) const {
    return chunk_rows(ctx.stream.device(), tokens, region_.slice().count);
  }
  // What the weight gradient of up reads.
  struct UpGradient {
    Linear::Gradient gradient;
    Linear::Saved saved;
  };
  MeasuredTensor activate(ExecContext& ctx, Arena& into, Tensor pre, Tensor magnitudes) const;
  void forward_in_chunks(ExecContext& ctx, Tensor y, Tensor x, const Residual& residual) const;
  MeasuredTensor activation_backward(ExecContext& ctx, Linear::Gradient of_down, Tensor pre,
                                     const Linear::Saved& down) const;
  UpGradient chunk_backward(ExecContext& ctx, Tensor dx, const Linear::Gradient& of_down,
                            const MeasuredTensor& x) const;
  Tensor backward_in_chunks(ExecContext& ctx, Tensor d, Tensor dy, const MeasuredTensor& all) const;
  Region& region_;
  Activation activation_;
  bool gated_;
  Linear up_, down_;
};

}  // namespace trireme
