#include "parallel/data/sharded_optimizer.h"

#include <algorithm>

#include "model/device/copy.h"
#include "model/ops/average.h"
#include "model/ops/optimizer.h"
#include "parallel/optimizer/registry.h"

namespace trireme {

ShardedOptimizer::ShardedOptimizer(ParamStore& store, const NormChunks& chunks, Ranks ranks,
                                   const Options& options, Arena& state, Arena& workspace)
    : recorder_(ranks.recorder),
      options_(options),
      workspace_(workspace),
      squares_(store, chunks, ranks.norm, workspace),
      optimizer_(make_optimizer(options.optimizer, ranks.update)),
      shards_(store.shards()),
      trained_(shards_.first(static_cast<std::size_t>(
          std::count_if(shards_.begin(), shards_.end(),
                        [](const ParamShard& shard) { return !shard.param->spec.is_buffer; })))) {
  const Device device = store.values().device;
  const DType type = store.grads().dtype;
  take_states(type, state);
  if (!(state.device() == device) || !(store.masters().device == device)) {
    staging_.emplace(shards_);
  }
  optimizer_->prepare(store, trained_, workspace);
  norm_ = workspace.take({1}, type);
  scale_ = workspace.take({1}, type);
}

void ShardedOptimizer::take_states(DType accumulator, Arena& arena) {
  constexpr std::int64_t kAligned = 64;  // elements: every shard starts at a cache line
  const auto rounded = [](std::int64_t count) {
    return (count + kAligned - 1) / kAligned * kAligned;
  };
  const Weight* experts = nullptr;
  std::vector<Optimizer::State> all;  // of the shard's parameter; the experts of a weight are alike
  for (ParamShard& shard : trained_) {
    const ParamSpec& spec = shard.param->spec;
    const bool is_of_experts = spec.group == ParamGroup::kExperts;
    if (!is_of_experts || shard.weight != experts) all = optimizer_->state(spec, accumulator);
    experts = is_of_experts ? shard.weight : nullptr;
    std::size_t index = 0;
    for (const Optimizer::State& declared : all) {
      state_named(declared.name, index++, declared.dtype).shards.push_back(&shard);
    }
  }
  if (options_.ema > 0) {
    State& average = state_named(kAverageName, State::kAverage, accumulator);
    for (ParamShard& shard : shards_) average.shards.push_back(&shard);
  }
  for (State& state : states_) {
    std::int64_t size = 0;
    for (const ParamShard* shard : state.shards) size += rounded(shard->count());
    state.flat = arena.take({size}, state.flat.dtype);
    Tensor own = state.flat;
    for (ParamShard* shard : state.shards) {
      own.shape[0] = shard->count();
      (state.index == State::kAverage ? shard->average : shard->state.at(state.index)) = own;
      own.data += static_cast<std::size_t>(rounded(own.shape[0])) * size_of(own.dtype);
    }
  }
}

ShardedOptimizer::State& ShardedOptimizer::state_named(const std::string& name, std::size_t index,
                                                       DType dtype) {
  auto found = std::find_if(states_.begin(), states_.end(),
                            [&](const State& state) { return state.name == name; });
  if (found == states_.end()) {
    found = states_.insert(found, State{name, index});
    found->flat.dtype = dtype;
  }
  require(found->index == index, name, " is not the same state of all parameters");
  return *found;
}

void ShardedOptimizer::step(Stream& stream, double learning_rate, std::int64_t update,
                            double norm_limit, double loss_scale) {
  using flight::Phase;
  const auto enter = [&](Phase phase) {
    if (recorder_ && stream.executes()) recorder_->enter(phase);
  };
  enter(Phase::kGradNorm);
  ops::clip_scale(stream, norm_, scale_, squares_.squares(stream),
                  {options_.max_norm, norm_limit, loss_scale});
  enter(Phase::kOptimizer);
  with_staging(stream, [&](Staging* staging) {
    optimizer_->update({stream, scale_, learning_rate, update, staging, options_.seed}, trained_);
  });
  if (options_.ema > 0) update_average(stream);
}

// After the optimizer's staging, which must have written back the masters.
void ShardedOptimizer::update_average(Stream& stream) {
  with_staging(stream, [&](Staging* staging) {
    for (const ParamShard& shard : shards_) {
      each_part({.stream = stream, .staging = staging}, shard,
                std::max<std::int64_t>(shard.count(), 1), /*into=*/0,
                {.master = true, .average = true}, {.average = true}, [&](const ParamShard& part) {
                  ops::update_average(stream, part.average, part.master, scale_, options_.ema);
                });
    }
  });
}

void ShardedOptimizer::start_average(Stream& stream) {
  if (options_.ema == 0) return;
  for (const ParamShard& shard : shards_) {
    copy_bytes(stream, shard.average.data, shard.master.data, shard.master.bytes());
  }
}

void ShardedOptimizer::publish_masters(Stream& stream, std::int64_t update) {
  with_staging(stream, [&](Staging* staging) {
    trireme::publish_masters(
        {.stream = stream, .update = update, .staging = staging, .seed = options_.seed},
        options_.optimizer, shards_);
  });
}

template <class Body>
void ShardedOptimizer::with_staging(Stream& stream, const Body& body) {
  const Arena::Frame frame(workspace_);
  if (staging_) staging_->begin(stream, workspace_);
  body(staging_ ? &*staging_ : nullptr);
  if (staging_) staging_->end(stream);
}

}  // namespace trireme
