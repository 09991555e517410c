#pragma once
#include "model/layers/linear.h"
#include "model/layers/norm.h"
#include "model/layers/region.h"
#include "model/ops/cross_entropy.h"

namespace trireme {

// Final norm, projection to the vocabulary and cross-entropy, over chunks of tokens so that only
// one chunk's logits exist at a time. Loss and gradient are computed together: with
// `with_gradient`, forward also computes the gradient of the hidden state and adds the weight
// gradient of the projection.
class Head {
 public:
  struct Saved {
    Norm::Saved norm;
    Tensor dh;  // [own tokens, hidden]: gradient of the norm's output
  };
  struct Targets {
    Tensor ids;         // [tokens] I32 of all tokens; -1: no target
    Tensor scale = {};  // [1] F64, empty: 1; loss scale of the gradient
    bool with_gradient = true;
    bool with_z_loss = true;  // in the loss
  };
  // `weight` [vocab, hidden], sharded over the region, may be the embedding's table.
  Head(ParamStore& params, const NormSpec& norm, const ops::LogitForm& form, Weight& weight,
       Region& region);

  // x [own tokens, hidden]. Returns the loss of every token, [tokens] in the accumulator dtype, in
  // ctx.saved; the same on all ranks of the region.
  Tensor forward(ExecContext& ctx, Tensor x, const Targets& targets, Saved& saved) const;
  // dx [own tokens, hidden] = the gradient of x.
  void backward(ExecContext& ctx, Tensor dx, const Saved& saved) const;
  // logits [rows, vocab] of x, for generation without sharding.
  void logits(ExecContext& ctx, Tensor logits, Tensor x) const;

  // Tokens per chunk of logits: about as many logits as suit the device (tuning.h), in whole tiles.
  static std::int64_t chunk_rows(Device device, std::int64_t tokens, std::int64_t vocab);

 private:
  void chunk(ExecContext& ctx, Tensor loss, Tensor h, Tensor dh, const Targets& targets) const;
  const Box& held() const { return weight_.parts.front().box; }  // this rank's rows
  Region& region_;
  ops::LogitForm form_;
  Norm norm_;
  Weight& weight_;
};

}  // namespace trireme
