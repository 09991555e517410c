#include "parallel/data/sharded_adamw.h"

namespace trireme {
namespace {

std::int64_t norm_chunks(const Param& param) {
  return (param.grad.count() + ops::kNormChunk - 1) / ops::kNormChunk;
}

}  // namespace

ShardedAdamW::ShardedAdamW(ParamStore& store, Communicator& data, const Options& options,
                           Arena& state, Arena& workspace)
    : store_(store), data_(data), options_(options) {
  require(data.size() == 1, "the optimizer's ranges are not shared out yet");
  const DType type = store.grads().dtype;
  first_ = state.take(store.grads().shape, type);
  second_ = state.take(store.grads().shape, type);
  std::int64_t chunks = 0;
  for (const Weight& weight : store.weights()) {
    for (const Param& param : weight.parts) chunks += norm_chunks(param);
  }
  partials_ = workspace.take({chunks}, DType::kF64);
  norm_ = workspace.take({1}, type);
  scale_ = workspace.take({1}, type);
}

void ShardedAdamW::step(Stream& stream, double learning_rate, std::int64_t update) {
  data_.reduce_scatter(stream, store_.grads(), store_.grads());
  std::int64_t at = 0;
  for (const Weight& weight : store_.weights()) {
    for (const Param& param : weight.parts) {
      ops::chunk_squares(stream, partials_.slice(at, norm_chunks(param)), param.grad);
      at += norm_chunks(param);
    }
  }
  ops::clip_scale(stream, norm_, scale_, partials_, options_.max_norm);

  const bool has_masters = store_.has_masters();
  for (const Weight& weight : store_.weights()) {
    for (const Param& param : weight.parts) {
      ops::adamw(stream,
                 {.value = param.value,
                  .master = has_masters ? param.master : Tensor{},
                  .m = first_moment(param),
                  .v = second_moment(param),
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
  data_.all_gather(stream, store_.values(), store_.values());
}

}  // namespace trireme
