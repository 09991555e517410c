#pragma once
#include <string>

#include "model/layers/attention.h"
#include "model/layers/mlp.h"
#include "model/layers/norm.h"
#include "model/stage/model_config.h"

namespace trireme {

// The seams a stage is built with; each outlives it.
struct Seams {
  Region& region;
  AttentionCore& attention;
};

// norm, attention, residual; norm, MLP, residual (the pre-norm transformer block).
class Block {
 public:
  struct Saved {
    Tensor x;  // the input
    Norm::Saved norm1, norm2;
    Attention::Saved attention;
    Mlp::Saved mlp;
    DeferredGradients deferred;  // of a backward by halves
  };
  Block(ParamStore& params, const std::string& name, const ModelConfig& config, Recompute recompute,
        Factors factors, Seams seams, const Tensor& rope_table);

  // y [tokens, hidden] replaced; x lasts until the backward.
  void forward(Run& run, Tensor y, Tensor x, const Sequence& sequence, Saved& saved) const;
  // Replaces dx by the gradient of the input. dx is not dy. Where run.deferred is set,
  // dy lasts until the gradients put off are made.
  void backward(Run& run, Tensor dx, Tensor dy, const Sequence& sequence, Saved& saved) const;
  // Forward alone: y replaced, nothing kept; takes no more of either arena than forward.
  void evaluate(Run& run, Tensor y, Tensor x, const Sequence& sequence) const;
  // One sequence's next tokens; y replaced.
  void decode(Run& run, Tensor y, Tensor x, Tensor positions, std::int64_t first,
              const KeyValueCache& cache) const;
  const ops::Heads& heads() const { return attention_.heads(); }

 private:
  void compute(Run& run, Tensor y, Tensor x, const Sequence& sequence, Recompute recompute,
               Saved& saved) const;
  void restore(Run& run, const Sequence& sequence, Saved& saved) const;
  Recompute recompute_;
  const Region& region_;
  Norm norm1_;
  Attention attention_;
  Norm norm2_;
  Mlp mlp_;
};

}  // namespace trireme
