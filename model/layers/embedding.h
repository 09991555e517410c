#pragma once
#include <vector>

#include "model/layers/region.h"
#include "model/layers/sequence.h"
#include "model/params/param_store.h"

namespace trireme {

struct EmbeddingSpec {
  std::int64_t vocab = 0, hidden = 0;
  std::int64_t positions = 0;  // learned positions; 0 for none
  double init_scale = 0.02;
  bool tied = false;  // the head uses the table too
};

// Token embedding, plus learned positions when asked. Rows of the vocabulary
// are shared out over the region; the output is what stands outside it.
class Embedding {
 public:
  Embedding(ParamStore& params, const EmbeddingSpec& spec, Region& region);

  // ids, positions [tokens] of all tokens; [own tokens, hidden], in `into`.
  Tensor forward(Run& run, Arena& into, Tensor ids, Tensor positions) const;
  void backward(Run& run, Tensor dy, Tensor ids, Tensor positions) const;
  // Of the store: the table's, and the positions'.
  std::vector<int> units() const;
  // For a head that is tied to it.
  Weight& table() const { return table_; }

 private:
  std::int64_t first() const { return table_.parts.front().box.from[0]; }
  Region& region_;
  Weight& table_;
  Weight* positions_ = nullptr;
};

}  // namespace trireme
