#include "parallel/data/sharded_adamw.h"

namespace trireme {

ShardedAdamW::ShardedAdamW(ParamStore& store, const ParamStore& whole, Ranks ranks,
                           const Options& options, Arena& state, Arena& workspace)
    : store_(store),
      ledger_(ranks.ledger),
      options_(options),
      squares_(store, whole, ranks.slice, ranks.norm, workspace) {
  const DType type = store.grads().dtype;
  first_ = state.take({store.own_count()}, type);
  second_ = state.take({store.own_count()}, type);
  norm_ = workspace.take({1}, type);
  scale_ = workspace.take({1}, type);
}

void ShardedAdamW::step(Stream& stream, double learning_rate, std::int64_t update) {
  using ledger::Phase;
  const auto enter = [&](Phase phase) {
    if (ledger_ && stream.executes()) ledger_->enter(phase);
  };
  enter(Phase::kGradNorm);
  ops::clip_scale(stream, norm_, scale_, squares_.squares(stream), options_.max_norm);
  enter(Phase::kOptimizer);
  const bool has_masters = store_.has_masters();
  for (const ParamStore::Owned& owned : store_.owned()) {
    ops::adamw(stream,
               {.value = owned.value,
                .master = has_masters ? owned.master : Tensor{},
                .m = first_.slice(owned.own, owned.count),
                .v = second_.slice(owned.own, owned.count),
                .grad = owned.grad,
                .grad_scale = scale_},
               {.learning_rate = learning_rate,
                .beta1 = options_.beta1,
                .beta2 = options_.beta2,
                .epsilon = options_.epsilon,
                .weight_decay = owned.param->spec.decay ? options_.weight_decay : 0,
                .step = update});
  }
}

}  // namespace trireme
