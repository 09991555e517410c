#include "model/layers/embedding.h"

#include "model/layers/linear.h"
#include "model/ops/embedding.h"

namespace trireme {

Embedding::Embedding(ParamStore& params, const EmbeddingSpec& spec, Region& region)
    : region_(region),
      first_(spec.vocab / region.slice().count * region.slice().index),
      table_(params.declare({.name = "embedding.weight",
                             .shape = {spec.vocab, spec.hidden},
                             .cut = {0, region.slice()},
                             .init_scale = spec.init_scale,
                             .decay = true})) {
  if (spec.positions > 0) {
    positions_ = &params.declare({.name = "position.weight",
                                  .shape = {spec.positions, spec.hidden},
                                  .init_scale = spec.init_scale,
                                  .decay = true,
                                  .partial = region.splits_tokens()});
  }
}

Tensor Embedding::forward(Run& run, Arena& into, Tensor ids, Tensor positions) const {
  const Tensor y = into.take({ids.count(), table_.value.width()}, table_.value.dtype);
  ops::embedding(run.stream, y, table_.value, ids, first_, ops::Into::kReplace);
  const Tensor whole = region_.leave(run, y);
  if (positions_) {
    ops::embedding(run.stream, whole, positions_->value, positions, 0, ops::Into::kAdd);
  }
  return whole;
}

void Embedding::backward(Run& run, Tensor dy, Tensor ids, Tensor positions) const {
  if (positions_) {
    ops::embedding_backward(run.stream, run.scratch, positions_->grad, dy, positions, 0,
                            Linear::gradient_into(*positions_));
  }
  ops::embedding_backward(run.stream, run.scratch, table_.grad, region_.leave_backward(run, dy),
                          ids, first_, Linear::gradient_into(table_));
}

}  // namespace trireme
