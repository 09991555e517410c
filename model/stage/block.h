#pragma once
#include <string>

#include "model/layers/attention.h"
#include "model/layers/mlp.h"
#include "model/layers/norm.h"
#include "model/stage/model_config.h"

namespace trireme {

// Extension points of a stage; each outlives it.
struct Seams {
  Region& region;
  AttentionCore& attention;
};

// The pre-norm transformer block: norm, attention, residual; norm, MLP, residual.
class Block {
 public:
  struct Saved {
    Tensor x;  // the input
    Norm::Saved norm1, norm2;
    Attention::Saved attention;
    Mlp::Saved mlp;
    DeferredGradients deferred;  // of a split backward
  };
  Block(ParamStore& params, const std::string& name, const ModelConfig& config, Recompute recompute,
        MatmulPrecision precision, Seams seams, const Tensor& rope_table);

  // y [tokens, hidden] is replaced; x must stay valid until the backward.
  void forward(ExecContext& ctx, Tensor y, Tensor x, const MicroBatch& batch, Saved& saved) const;
  // dx = the gradient of the input; dx is not dy. If run.deferred is set, dy must stay valid until
  // the deferred gradients are computed.
  void backward(ExecContext& ctx, Tensor dx, Tensor dy, const MicroBatch& batch,
                Saved& saved) const;
  // Forward only: y is replaced, nothing is saved; needs no more of either arena than forward.
  void evaluate(ExecContext& ctx, Tensor y, Tensor x, const MicroBatch& batch) const;
  // Decodes the next tokens of one sequence; y is replaced.
  void decode(ExecContext& ctx, Tensor y, Tensor x, Tensor positions, std::int64_t first,
              const KeyValueCache& cache) const;
  const ops::Heads& heads() const { return attention_.heads(); }

 private:
  void compute(ExecContext& ctx, Tensor y, Tensor x, const MicroBatch& batch, Recompute recompute,
               Saved& saved) const;
  void restore(ExecContext& ctx, const MicroBatch& batch, Saved& saved) const;
  Recompute recompute_;
  const Region& region_;
  Norm norm1_;
  Attention attention_;
  Norm norm2_;
  Mlp mlp_;
};

}  // namespace trireme
