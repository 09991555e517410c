#include "parallel/data/sharded_adamw.h"

namespace trireme {
ShardedAdamW::ShardedAdamW(ParamStore& store, const ParamStore& whole, Ranks ranks,
                           const Options& options, Arena& state, Arena& workspace)
    : store_(store),
      data_(ranks.data),
      ledger_(ranks.ledger),
      options_(options),
      squares_(store, whole, ranks.model, workspace) {
  require(data_.size() == 1, "the optimizer's ranges are not shared out yet");
  const DType type = store.grads().dtype;
  first_ = state.take(store.grads().shape, type);
  second_ = state.take(store.grads().shape, type);
  norm_ = workspace.take({1}, type);
  scale_ = workspace.take({1}, type);
}

void ShardedAdamW::step(Stream& stream, double learning_rate, std::int64_t update,
                        double norm_limit) {
  using ledger::Phase;
  const auto enter = [&](Phase phase) {
    if (ledger_ && stream.executes()) ledger_->enter(phase);
  };
  enter(Phase::kReduce);
  data_.reduce_scatter(stream, store_.grads(), store_.grads());
  enter(Phase::kGradNorm);
  ops::clip_scale(stream, norm_, scale_, squares_.squares(stream), options_.max_norm, norm_limit);
  enter(Phase::kOptimizer);
  const bool has_masters = store_.has_masters();
  for (const Weight& weight : store_.weights()) {
    for (const Param& param : weight.parts) {
      ops::adamw(stream,
                 {.value = param.value,
                  .master = has_masters ? param.master : Tensor{},
                  .m = of(first_, param),
                  .v = of(second_, param),
                  .grad = param.grad,
                  .grad_scale = scale_},
                 {.learning_rate = learning_rate,
                  .beta1 = options_.beta1,
                  .beta2 = options_.beta2,
                  .epsilon = options_.epsilon,
                  .weight_decay = param.spec.decay ? options_.weight_decay : 0,
                  .step = update});
    }
  }
  enter(Phase::kPublish);
  data_.all_gather(stream, store_.values(), store_.values());
}

}  // namespace trireme
