#include "model/layers/embedding.h"

#include "model/layers/linear.h"
#include "model/layers/vocab_table.h"
#include "model/ops/embedding.h"

namespace trireme {

namespace {

Weight& declare_table(ParamStore& params, const EmbeddingSpec& spec, const Region& region) {
  params.begin_unit(/*layer=*/-1, /*alone=*/spec.tied);
  return params.declare(vocab_table("embedding.weight", spec.vocab, spec.hidden, spec.init_scale,
                                    region.slice(), spec.vocab_tile));
}

}  // namespace

Embedding::Embedding(ParamStore& params, const EmbeddingSpec& spec, Region& region)
    : region_(region), table_(declare_table(params, spec, region)) {
  if (spec.positions > 0) {
    params.begin_unit();
    positions_ = &params.declare({.name = "position.weight",
                                  .shape = {spec.positions, spec.hidden},
                                  .cut = whole(region.slice()),
                                  .init_scale = spec.init_scale,
                                  .decay = true,
                                  .partial = region.splits_tokens()});
  }
}

std::vector<int> Embedding::units() const {
  std::vector<int> units{table_.unit};
  if (positions_) units.push_back(positions_->unit);
  return units;
}

Tensor Embedding::forward(ExecContext& ctx, Arena& into, Tensor ids, Tensor positions) const {
  // If tokens are sharded, the rows of all tokens are temporary.
  Arena& passing = region_.splits_tokens() ? ctx.scratch : into;
  const Tensor partial = passing.take({ids.count(), table_.value.width()}, table_.value.dtype);
  ops::embedding(ctx.stream, partial, table_.value, ids, first(), ops::Accumulate::kReplace);
  const Tensor y = region_.leave(ctx, into, partial);
  if (positions_) {
    ops::embedding(ctx.stream, y, positions_->value, region_.own_tokens(positions), 0,
                   ops::Accumulate::kAdd);
  }
  return y;
}

void Embedding::backward(ExecContext& ctx, Tensor dy, Tensor ids, Tensor positions) const {
  if (positions_) {
    ops::embedding_backward(ctx.stream, ctx.scratch, positions_->grad, dy,
                            region_.own_tokens(positions), 0,
                            Linear::gradient_accumulate(*positions_));
  }
  ops::embedding_backward(ctx.stream, ctx.scratch, table_.grad, region_.leave_backward(ctx, dy),
                          ids, first(), Linear::gradient_accumulate(table_));
}

}  // namespace trireme
