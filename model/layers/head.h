#pragma once
#include "model/layers/linear.h"
#include "model/layers/norm.h"
#include "model/layers/region.h"

namespace trireme {

// Final norm, projection to the vocabulary and cross-entropy, over chunks of
// tokens so that only a chunk's logits exist at a time. The loss and its
// gradient are computed in one visit: when `with_gradient`, forward also leaves the
// gradient of the hidden state and adds the projection's weight gradient.
class Head {
 public:
  struct Saved {
    Norm::Saved norm;
    Tensor dh;  // [own tokens, hidden]: gradient at the norm's output
  };
  struct Targets {
    Tensor ids;         // [tokens] I32 of all tokens, -1 where there is nothing to predict
    Tensor scale = {};  // [1] F64, none: 1; the gradient is that of scale * the summed loss
    bool with_gradient = true;
  };
  // `weight` [vocab, hidden], shared out over the region, may be the embedding's table.
  Head(ParamStore& params, NormKind kind, std::int64_t hidden, double epsilon, Weight& weight,
       Region& region);

  // x [own tokens, hidden]. The loss of every token, [tokens] in the accumulator
  // dtype, in keep: the same on all holders.
  Tensor forward(Run& run, Tensor x, const Targets& targets, Saved& saved) const;
  // Replaces dx [own tokens, hidden] by the gradient of x.
  void backward(Run& run, Tensor dx, const Saved& saved) const;
  // logits [rows, vocab] = those of x, for generation where nothing is shared.
  void logits(Run& run, Tensor logits, Tensor x) const;

  // Tokens whose logits exist at once: about 2^25 logits, as whole tiles.
  static std::int64_t chunk_rows(std::int64_t tokens, std::int64_t vocab);

 private:
  void chunk(Run& run, Tensor loss, Tensor h, Tensor dh, const Targets& targets) const;
  const Box& held() const { return weight_.parts.front().box; }  // of the vocabulary
  Region& region_;
  Norm norm_;
  Weight& weight_;
};

}  // namespace trireme
