#include "trainer/engine/model_state.h"

#include "model/device/tuning.h"
#include "parallel/context/context_attention.h"
#include "parallel/tensor/sequence_region.h"
#include "parallel/tensor/tensor_region.h"

namespace trireme {
namespace {

std::unique_ptr<Region> region_of(const RankGroups& groups, bool sequence) {
  if (groups.tensor->size() == 1) return std::make_unique<Region>();
  if (sequence) return std::make_unique<SequenceRegion>(*groups.tensor);
  return std::make_unique<TensorRegion>(*groups.tensor);
}

}  // namespace

// Reduces gradients and gathers weights unit by unit, and records the layer for the watchdog.
class ModelState::Hooks final : public UnitHooks {
 public:
  Hooks(ModelState& state, StepProgress& progress) : state_(state), progress_(progress) {}
  void before_forward(Stream& stream, int unit) override {
    called(stream, Kind::kForward, unit, state_.gatherer_->queues_before_use());
  }
  void before_backward(Stream& stream, int unit) override {
    called(stream, Kind::kBackward, unit, state_.gatherer_->queues_before_use());
  }
  void before_gradients(Stream& stream, int unit) override {
    if (log_) state_.reducer_->place(unit);
    called(stream, Kind::kBeforeGradients, unit, state_.reducer_->queues_before());
  }
  void after_gradients(Stream& stream, int unit) override {
    called(stream, Kind::kAfterGradients, unit, state_.reducer_->queues_after(unit));
  }

  void log(HookLog* log) { log_ = log; }
  void take_effect(Stream& stream, const HookCall& call) {
    switch (call.kind) {
      case Kind::kForward:
        return use(stream, call.unit, 1);
      case Kind::kBackward:
        return use(stream, call.unit, -1);
      case Kind::kBeforeGradients:
        return state_.reducer_->before(stream, call.unit);
      case Kind::kAfterGradients:
        return state_.reducer_->after(stream, call.unit);
    }
  }

 private:
  using Kind = HookCall::Kind;
  void called(Stream& stream, Kind kind, int unit, bool queues) {
    const HookCall call{kind, unit, queues};
    if (log_) return log_->called(stream, call);
    take_effect(stream, call);
  }
  // `direction`: of the units that are used next.
  void use(Stream& stream, int unit, int direction) {
    const std::vector<ParamStore::Unit>& units = state_.params_.units();
    progress_.use(units[unit]);
    const auto is_any = [&](int u) { return u >= 0 && u < static_cast<int>(units.size()); };
    int next = unit + direction;
    while (is_any(next) && units[next].group != units[unit].group) next += direction;
    // Prefetch between layers only: they are used one at a time, so the one before is done with.
    const bool prefetches = units[unit].layer >= 0 && is_any(next) && units[next].layer >= 0;
    state_.gatherer_->before_use(stream, unit, prefetches ? next : -1);
  }
  ModelState& state_;
  StepProgress& progress_;
  HookLog* log_ = nullptr;
};

ModelState::~ModelState() = default;

void ModelState::log_hooks(HookLog* log) {
  hooks_->log(log);
}
void ModelState::call(Stream& stream, const HookCall& call) {
  hooks_->take_effect(stream, call);
}

ModelState::ModelState(const EngineSpec& spec, const std::vector<BlockRange>& stages,
                       const RankGroups& groups, const Stream& stream, Arenas& arenas,
                       StepProgress& progress)
    : groups_(groups),
      region_(region_of(groups, spec.parallelism.sequence)),
      attention_(context_attention(spec.parallelism.context_method,
                                   groups.context->size() > 1 && !divides_sequences(spec),
                                   groups.context_levels(spec.parallelism.context_method))),
      hooks_(std::make_unique<Hooks>(*this, progress)) {
  if (divides_sequences(spec)) sequence_.emplace(*groups.context);
  if (groups.expert) {
    exchange_.emplace(*groups.expert, stream,
                      TokenAllToAll::Options{spec.model.num_experts, spec.model.num_experts_per_tok,
                                             spec.parallelism.expert_buffer_factor},
                      arenas.workspace);
  }
  declare(spec, stages, stream.device());
  allocate(spec, arenas, !stream.executes());
}

Sharing ModelState::sharing(const EngineSpec& spec) const {
  const std::int64_t zero = spec.parallelism.zero;
  const bool shares = groups_.shard->size() > 1;
  const bool own_masters = spec.compute == accumulator_of(spec.compute);
  const Communicator& experts = groups_.data_ranks(ParamGroup::kExperts).shard;
  return {.parts = groups_.shard->size(),
          .part = groups_.shard->rank(),
          .expert_parts = experts.size(),
          .expert_part = experts.rank(),
          .bucket = zero >= 2 && shares ? 0 : spec.bucket,
          .values = zero >= 3 && shares,
          .masters = shares && (!own_masters || zero >= 3),
          .gradients = zero >= 2 && shares};
}

void ModelState::declare(const EngineSpec& spec, const std::vector<BlockRange>& stages,
                         Device device) {
  const bool apart = spec.micro_batches > 1 || spec.job.reproducible || sharing(spec).gradients;
  const std::int64_t vocab_tile = tuning_of(device).vocab_tile;
  const auto stage_spec = [&](const BlockRange& blocks) {
    return Stage::Spec{.first_block = blocks.first,
                       .end_block = blocks.end,
                       .max_positions = spec.training.seq_len,
                       .vocab_tile = vocab_tile,
                       .recompute = spec.activation_checkpoint.mode,
                       .tied_gradient_apart = apart,
                       .precision = spec.precision,
                       .dropout = spec.training.dropout,
                       .z_loss = spec.training.z_loss};
  };
  const Seams seams{.region = *region_,
                    .attention = *attention_,
                    .experts = exchange_ ? *exchange_ : TokenExchange::alone(),
                    .sequence = sequence_ ? *sequence_ : SequenceRanks::alone()};
  for (const BlockRange& blocks : stages) {
    stages_.emplace_back(params_, spec.model, stage_spec(blocks), seams, *hooks_);
  }
  whole_ = whole_model({.model = spec.model,
                        .max_positions = spec.training.seq_len,
                        .vocab_tile = vocab_tile,
                        .tied_gradient_apart = apart,
                        .tensor = region_->slice().index,
                        .tensor_ranks = region_->slice().count,
                        .splits_tokens = region_->splits_tokens()},
                       *region_, *attention_);
}

void ModelState::allocate(const EngineSpec& spec, Arenas& arenas, bool planning) {
  params_.allocate({arenas.weights, arenas.masters, &arenas.gradients}, spec.compute,
                   sharing(spec));
  reducer_.emplace(params_, groups_.data_ranks(),
                   GradientReducer::Options{.micro_batches = spec.micro_batches,
                                            .reproducible = spec.job.reproducible,
                                            .expert_ranks = groups_.experts().count,
                                            .compression = spec.parallelism.compression},
                   arenas.gradients, arenas.communication);
  gatherer_.emplace(params_, groups_.data_ranks(), arenas.weights_in_common, arenas.communication);
  for (Stage& stage : stages_) stage.take_tables(arenas.weights, spec.compute, planning);
  // ZeRO-3 holds a weight for a moment only.
  if (spec.training.float8_cache_weights && !sharing(spec).values) {
    for (Stage& stage : stages_) stage.take_codes(arenas.weights);
  }
  optimizer_.emplace(
      params_, whole_->chunks(),
      ShardedOptimizer::Ranks{{*groups_.model_state, groups_.is_primary_of_dense()},
                              {*groups_.shard, *groups_.tensor},
                              groups_.recorder},
      ShardedOptimizer::Options{spec.optimizer, spec.training.max_norm,
                                static_cast<std::uint64_t>(spec.job.seed), spec.training.ema},
      arenas.optimizer, arenas.workspace);
  router_bias_.emplace(params_, *groups_.shard);
  partial_gradients_.emplace(
      params_, std::vector<Communicator*>{groups_.tensor.get(), groups_.kv_replicas.get()},
      arenas.communication);
  if (spec.model.tie_word_embeddings && groups_.embedding_group->size() > 1)
    tied_gradient_ = tied_gradient();
}

Tensor ModelState::tied_gradient() const {
  for (const Weight& weight : params_.weights()) {
    if (weight.parts.front().spec.name != kEmbedding) continue;
    const int bucket = params_.units()[weight.unit].bucket;
    return params_.own_part(params_.grads(), params_.buckets()[bucket],
                            params_.sharing().gradients);
  }
  return {};
}

void ModelState::finish_gradients(Stream& stream, std::int64_t update) {
  reducer_->finish(stream, update);
  if (tied_gradient_) groups_.embedding_group->all_reduce(stream, tied_gradient_, Reduce::kSum);
  partial_gradients_->sum(stream);
}

void ModelState::publish_masters(Stream& stream, std::int64_t update) {
  optimizer_->publish_masters(stream, update);
  router_bias_->load(stream);
  gatherer_->publish(stream);
}

std::vector<const Stage*> ModelState::stages() const {
  std::vector<const Stage*> stages;
  for (const Stage& stage : stages_) stages.push_back(&stage);
  return stages;
}

const Stage& ModelState::stage() const {
  require(stages_.size() == 1, "needs the whole model in one stage; this rank has ", stages_.size(),
          " stages");
  return stages_.front();
}

template <class Counts>
std::size_t ModelState::checkpoint_bytes_if(const Counts& counts) const {
  std::size_t bytes = 0;
  for (const ParamShard& shard : params_.shards()) {
    if (counts(*shard.param)) bytes += shard.master.bytes();
  }
  for (const ShardedOptimizer::State& state : optimizer_->states()) {
    for (const ParamShard* shard : state.shards) {
      if (counts(*shard->param)) bytes += state.of(*shard).bytes();
    }
  }
  return bytes;
}

std::size_t ModelState::checkpoint_bytes() const {
  return checkpoint_bytes_if([](const Param&) { return true; });
}

std::size_t ModelState::unique_checkpoint_bytes() const {
  return checkpoint_bytes_if([&](const Param& param) {
    return param.is_primary_replica() && groups_.data_ranks(param.spec.group).replicate.rank() == 0;
  });
}

}  // namespace trireme
