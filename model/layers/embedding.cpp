#include "model/layers/embedding.h"

#include "model/layers/linear.h"
#include "model/layers/vocab_table.h"
#include "model/ops/elementwise.h"
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
    : region_(region),
      multiplier_(spec.multiplier),
      rounds_multiplier_(spec.rounds_multiplier),
      dropout_(spec.dropout),
      table_(declare_table(params, spec, region)) {
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

double Embedding::multiplier(DType dtype) const {
  const auto narrow = static_cast<float>(multiplier_);
  if (!rounds_multiplier_ || dtype == DType::kF64) return multiplier_;
  if (dtype == DType::kBf16) return static_cast<float>(Bf16(narrow));
  return dtype == DType::kF16 ? static_cast<float>(F16(narrow)) : narrow;
}

ops::Dropout Embedding::dropout(Tensor words) const {
  return dropout_.with(words ? region_.own_tokens(words) : words);
}

Tensor Embedding::forward(ExecContext& ctx, Arena& into, Tensor ids, Tensor positions,
                          Tensor dropout_words) const {
  // If tokens are sharded, the rows of all tokens are temporary.
  Arena& passing = region_.splits_tokens() ? ctx.scratch : into;
  const Tensor partial = passing.take({ids.count(), table_.value.width()}, table_.value.dtype);
  ops::embedding(ctx.stream, partial, table_.value, ids, first(), ops::Accumulate::kReplace);
  const Tensor y = region_.leave(ctx, into, partial);
  if (multiplier_ != 1) ops::scale(ctx.stream, y, y, multiplier(y.dtype));
  if (positions_) {
    ops::embedding(ctx.stream, y, positions_->value, region_.own_tokens(positions), 0,
                   ops::Accumulate::kAdd);
  }
  if (const ops::Dropout how = dropout(dropout_words)) ops::dropout(ctx.stream, y, y, how);
  return y;
}

void Embedding::backward(ExecContext& ctx, Tensor dy, Tensor ids, Tensor positions,
                         Tensor dropout_words) const {
  if (const ops::Dropout how = dropout(dropout_words)) {
    const Tensor kept = ctx.scratch.take(dy.shape, dy.dtype);
    ops::dropout(ctx.stream, kept, dy, how);
    dy = kept;
  }
  if (positions_) {
    ops::embedding_backward(ctx.stream, ctx.scratch, positions_->grad, dy,
                            region_.own_tokens(positions), 0,
                            Linear::gradient_accumulate(*positions_));
  }
  Tensor d = dy;
  if (multiplier_ != 1) {
    d = ctx.scratch.take(dy.shape, dy.dtype);
    ops::scale(ctx.stream, d, dy, multiplier(dy.dtype));
  }
  ops::embedding_backward(ctx.stream, ctx.scratch, table_.grad, region_.leave_backward(ctx, d), ids,
                          first(), Linear::gradient_accumulate(table_));
}

}  // namespace trireme
