#pragma once
#include <vector>

#include "model/layers/region.h"
#include "model/ops/dropout.h"
#include "model/params/param_store.h"

namespace trireme {

struct EmbeddingSpec {
  std::int64_t vocab = 0, hidden = 0;
  std::int64_t vocab_tile = 1;  // the table has a multiple of this many rows in memory
  std::int64_t positions = 0;   // learned positions; 0: none
  double init_scale = 0.02;
  double multiplier = 1;           // of the token embeddings
  bool rounds_multiplier = false;  // to the compute dtype, as Gemma's reference does
  bool tied = false;               // the head uses the same table
  ops::Dropout dropout = {};       // of the output; without words
};

// Token embedding, plus optional learned positions. Rows of the vocabulary are sharded over the
// region; the output has the region's outside layout.
class Embedding {
 public:
  Embedding(ParamStore& params, const EmbeddingSpec& spec, Region& region);

  // ids, positions, dropout_words [tokens] of all tokens; dropout_words may be empty. Returns [own
  // tokens, hidden], in `into`.
  Tensor forward(ExecContext& ctx, Arena& into, Tensor ids, Tensor positions,
                 Tensor dropout_words) const;
  void backward(ExecContext& ctx, Tensor dy, Tensor ids, Tensor positions,
                Tensor dropout_words) const;
  // Units of the store: the table's, and the positions'.
  std::vector<int> units() const;
  // For a tied head.
  Weight& table() const { return table_; }

 private:
  std::int64_t first() const { return table_.parts.front().box.from[0]; }
  double multiplier(DType dtype) const;
  ops::Dropout dropout(Tensor words) const;
  Region& region_;
  double multiplier_;
  bool rounds_multiplier_;
  const ops::Dropout dropout_;
  Weight& table_;
  Weight* positions_ = nullptr;
};

}  // namespace trireme
