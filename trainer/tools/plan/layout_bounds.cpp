#include "trainer/tools/plan/layout_bounds.h"

#include <algorithm>
#include <numeric>

#include "model/stage/layer_config.h"
#include "trainer/engine/pipeline_layout.h"

namespace trireme {

LayoutBounds::LayoutBounds(const RunConfig& config, const DeviceProfile& profile, Device device,
                           double expert_imbalance)
    : config_(config),
      profile_(profile),
      device_(device),
      expert_imbalance_(expert_imbalance),
      model_(plan_model(config)),
      theory_(state_theory(config, static_cast<double>(model_.checkpoint_bytes) /
                                       static_cast<double>(model_.parameters))),
      embedding_(static_cast<double>(config.model.vocab_size * config.model.hidden_size)) {
  if (device.is_cuda() && config.optimizer.offload) theory_.optimizer = 0;
  const std::vector<LayerConfig> layers = layer_configs(config.model);
  std::vector<LayerConfig> known;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto found = std::find(known.begin(), known.end(), layers[i]);
    kind_of_.push_back(static_cast<std::size_t>(found - known.begin()));
    if (found != known.end()) continue;
    known.push_back(layers[i]);
    const auto with = [&](std::int64_t count) {
      return parameters_of(with_equal_layers(config.model, static_cast<std::int64_t>(i), count));
    };
    const Parameters two = with(2), one = with(1);
    kinds_.push_back({two.dense - one.dense, two.experts - one.experts});
  }
}

LayoutBounds::Parameters LayoutBounds::parameters_of(const ModelConfig& model) const {
  const auto experts = static_cast<double>(expert_parameter_count(model));
  return {static_cast<double>(parameter_count(model)) - experts, experts};
}

double LayoutBounds::state_bytes(const Parameters& parameters,
                                 const ParallelismConfig& layout) const {
  const auto zero = static_cast<int>(layout.zero),
             shards = static_cast<int>(layout.data_shard * layout.context);
  const double all =
      parameters.dense * theory_.per_rank(zero, shards) +
      parameters.experts * theory_.per_expert_rank(zero, shards, static_cast<int>(layout.expert));
  return all / static_cast<double>(layout.tensor);
}

// All matmuls and all attention at the rates that the largest reach.
double LayoutBounds::seconds_by_flops(const RunConfig& family) const {
  const double again = family.activation_checkpoint.mode == Recompute::kFull ? 4.0 / 3 : 1;
  double matmul = 0, attention = 0;
  for (const ProductRate& rate : profile_.rates) {
    matmul = std::max(matmul, rate.peak * rate.product);
    attention = std::max(attention, rate.peak * std::max(rate.flash, rate.own_flash));
  }
  const double seconds =
      again * model_.useful.matmul / matmul + model_.useful.attention_causal / attention;
  return seconds * static_cast<double>(family.training.global_batch_size) /
         static_cast<double>(world_size(family.parallelism)) / fastest();
}

double LayoutBounds::seconds_by_layers(const RunConfig& family) {
  const Workload work = workload_of(family, expert_imbalance_);
  const StepOps& ops = ops_of(work);
  const auto seconds = [&](const PartOps& part) {
    return list_time(part.forward, work, profile_).seconds() +
           list_time(part.backward, work, profile_).seconds();
  };
  double all = seconds(ops.first) + seconds(ops.last);
  std::vector<double> of_kind;
  for (const PartOps& kind : ops.kinds) of_kind.push_back(seconds(kind));
  for (const std::size_t kind : ops.kind_of) all += of_kind[kind];
  return all * static_cast<double>(work.spec.micro_batches) /
         static_cast<double>(work.mesh.pipeline) / fastest();
}

// Recorded with few data ranks, whose number changes the padding of shards alone, and two pipeline
// ranks.
const StepOps& LayoutBounds::ops_of(const Workload& work) {
  EngineSpec spec = work.spec;
  ParallelismConfig& p = spec.parallelism;
  if (p.expert == 1) {
    p.data_shard = std::min<std::int64_t>(p.data_shard, 2);
    p.data_replicate = std::min<std::int64_t>(p.data_replicate, 2);
  }
  p.pipeline = std::min<std::int64_t>(p.pipeline, 2);
  spec.micro_batches = std::min<std::int64_t>(spec.micro_batches, 2);
  const OpsKey key{p.tensor,
                   p.sequence,
                   {p.context, p.context_method},
                   p.pipeline,
                   p.zero,
                   p.expert,
                   p.data_shard,
                   p.data_replicate,
                   spec.training.local_batch_size,
                   spec.micro_batches,
                   spec.activation_checkpoint.mode};
  auto known = ops_.find(key);
  if (known == ops_.end()) {
    known = ops_.emplace(key, record_step(spec, mesh_shape(p), device_)).first;
  }
  return known->second;
}

const StageDivision& LayoutBounds::division(std::int64_t stages) {
  const auto [known, is_new] = divisions_.try_emplace(stages);
  StageDivision& division = known->second;
  if (!is_new) return division;
  EngineSpec spec = engine_spec(config_);
  spec.parallelism.layers_per_stage.clear();
  division.layers_per_stage = divide_layers(spec, static_cast<int>(stages));
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < division.layers_per_stage.size(); ++stage) {
    StageLayers layers{.of_kind = std::vector<std::int64_t>(kinds_.size()),
                       .is_first = stage == 0,
                       .is_last = stage + 1 == division.layers_per_stage.size()};
    const std::size_t end = layer + static_cast<std::size_t>(division.layers_per_stage[stage]);
    for (; layer < end; ++layer) ++layers.of_kind[kind_of_[layer]];
    const auto found = std::find(division.distinct.begin(), division.distinct.end(), layers);
    division.of_stage.push_back(static_cast<std::size_t>(found - division.distinct.begin()));
    if (found == division.distinct.end()) division.distinct.push_back(layers);
  }
  return division;
}

const Simulation& LayoutBounds::simulation(const Workload& work, const ScheduleChoice& choice) {
  PipelineShape shape = pipeline_shape(work);
  shape.virtual_stages = static_cast<int>(choice.virtual_stages);
  const ScheduleKey key{choice.schedule, shape.ranks, shape.micro_batches, shape.virtual_stages};
  const auto known = simulations_.find(key);
  if (known != simulations_.end()) return known->second;
  return simulations_.try_emplace(key, make_schedule(choice.schedule->name, shape)).first->second;
}

LayoutBounds::Member::Member(LayoutBounds& bounds, const RunConfig& layout)
    : bounds_(bounds),
      work_(workload_of(layout, bounds.expert_imbalance_)),
      ops_(bounds.ops_of(work_)),
      times_(step_times(ops_, work_, bounds.profile_)) {
  if (work_.mesh.pipeline > 1) {
    transfer_ = collective_seconds(bounds.profile_.network, Collective::kSend,
                                   group_of("pipeline_ends", work_), ops_.boundary_bytes);
  }
  const ParallelismConfig& p = layout.parallelism;
  embedding_bytes_ = bounds.state_bytes({bounds.embedding_, 0}, p);
  for (const Parameters& kind : bounds.kinds_) kind_bytes_.push_back(bounds.state_bytes(kind, p));
}

double LayoutBounds::Member::seconds(const ScheduleChoice& choice) {
  const auto ranks = static_cast<std::size_t>(work_.mesh.pipeline);
  const StageDivision& division = bounds_.division(work_.mesh.pipeline * choice.virtual_stages);
  struct Seconds {
    double forward = 0, backward = 0;
  };
  std::vector<Seconds> distinct;
  for (const StageLayers& layers : division.distinct) {
    const StageCosts costs = stage_costs(times_, work_, bounds_.profile_.network, layers);
    distinct.push_back({costs.forward.seconds(), costs.backward.seconds()});
  }
  const auto of_stage = [&](std::size_t stage) { return distinct[division.of_stage[stage]]; };
  const auto micro_batches = static_cast<double>(work_.spec.micro_batches);
  double least = 0, before = 0;  // of the stages before
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    double own = 0;
    for (std::size_t stage = rank; stage < division.of_stage.size(); stage += ranks) {
      own += of_stage(stage).forward + of_stage(stage).backward;
    }
    least = std::max(least, before + micro_batches * own);
    // Deferred weight gradients may be computed while the last gradient leaves.
    before += of_stage(rank).forward + transfer_;
    if (!choice.schedule->defers_weight_gradients) before += of_stage(rank).backward + transfer_;
  }
  return least / bounds_.fastest();
}

double LayoutBounds::Member::seconds_by_simulation(const ScheduleChoice& choice) {
  if (bounds_.profile_.cores > 0) return seconds(choice);  // a faster rank is not a faster pipeline
  const StageDivision& division = bounds_.division(work_.mesh.pipeline * choice.virtual_stages);
  const std::vector<StageCosts> stages =
      costs_of_stages(ops_, times_, work_, bounds_.profile_, division.layers_per_stage);
  return bounds_.simulation(work_, choice)
      .run(action_costs(stages, ops_, work_, bounds_.profile_.network))
      .makespan;
}

double LayoutBounds::Member::bytes(const ScheduleChoice& choice) {
  const std::int64_t ranks = work_.mesh.pipeline, stages = choice.virtual_stages;
  const StageDivision& division = bounds_.division(ranks * stages);
  const bool keeps_activations =
      !bounds_.device_.is_cuda() || !work_.spec.activation_checkpoint.offload;
  double state = embedding_bytes_;
  std::vector<double> saved;  // of a micro-batch, by stage of the rank
  for (std::int64_t i = 0; i < stages; ++i) {
    const std::size_t distinct = division.of_stage[static_cast<std::size_t>(i * ranks)];
    const std::vector<std::int64_t>& layers = division.distinct[distinct].of_kind;
    double activations = 0;
    for (std::size_t kind = 0; kind < layers.size(); ++kind) {
      const auto count = static_cast<double>(layers[kind]);
      state += count * kind_bytes_[kind];
      if (keeps_activations) activations += count * ops_.kinds[kind].saved_bytes;
    }
    saved.push_back(activations);
  }
  // Forwards before the first backward, in groups of `ranks` micro-batches through each stage.
  const std::int64_t until_gradient = stages > 1 ? 2 * (ranks - 1) : ranks - 1;
  const std::int64_t ahead = until_gradient + (stages - 1) * ranks + 1;
  double in_flight = 0;
  for (std::int64_t k = 0; k < std::min(ahead, work_.spec.micro_batches * stages); ++k) {
    in_flight += saved[static_cast<std::size_t>(k / ranks % stages)];
  }
  return state + in_flight;
}

}  // namespace trireme
