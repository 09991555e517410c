#include "trainer/tools/plan/search/layout_bounds.h"

#include <algorithm>
#include <limits>

#include "model/stage/layer_config.h"

namespace trireme {

LayoutBounds::LayoutBounds(const RunConfig& config, const DeviceProfile& profile, Device device,
                           double expert_imbalance)
    : profile_(profile),
      device_(device),
      expert_imbalance_(expert_imbalance),
      model_(plan_model(config)),
      theory_(state_theory(config, static_cast<double>(model_.checkpoint_bytes) /
                                       static_cast<double>(model_.parameters))),
      embedding_(static_cast<double>(config.model.vocab_size * config.model.hidden_size)),
      all_(parameters_of(config.model)),
      parts_(config, profile) {
  if (device.is_cuda() && config.optimizer.offload) theory_.optimizer = 0;
  const std::vector<std::size_t>& kind_of = parts_.kind_of();
  for (std::size_t i = 0; i < kind_of.size(); ++i) {
    if (kind_of[i] < kinds_.size()) continue;
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

double LayoutBounds::state_bytes(const RunConfig& layout) const {
  return state_bytes(all_, layout.parallelism) / static_cast<double>(layout.parallelism.pipeline);
}

// All matmuls and all attention at the rates that the largest reach.
double LayoutBounds::seconds_by_flops(const RunConfig& family) const {
  const double again = family.activation_checkpoint.mode == Recompute::kFull ? 4.0 / 3 : 1;
  double matmul = 0, attention = 0;
  for (const ProductRate& rate : profile_.rates) {
    for (const bool is_grouped : {false, true}) {
      for (const bool transpose_a : {false, true}) {
        matmul = std::max(matmul, rate.peak * rate.matmul(is_grouped, transpose_a).product);
      }
    }
    attention = std::max(attention, rate.peak * std::max(rate.flash, rate.own_flash));
  }
  const double seconds =
      again * model_.useful.matmul / matmul + model_.useful.attention_causal / attention;
  const std::int64_t ranks = world_size(family.parallelism);
  return seconds * static_cast<double>(family.training.global_batch_size) /
         static_cast<double>(ranks) * slowdown(ranks);
}

// ZeRO-2's blocks compute no more than those of other stages, but for what they copy of shards.
Workload LayoutBounds::least_work(const RunConfig& family) const {
  Workload work = workload_of(family, expert_imbalance_);
  ParallelismConfig& p = work.spec.parallelism;
  if (p.data_shard * p.context > 1) p.zero = 2;
  return work;
}

double LayoutBounds::seconds_by_layers(const RunConfig& family) {
  const Workload work = least_work(family);
  const LayoutOps ops = parts_.ops_of(work);
  const auto seconds = [&](const PartOps& part) {
    PartOps::List backward = part.backward;
    std::erase_if(backward, is_copy);
    return PassSeconds{list_time(part.forward, work, profile_).seconds(),
                       list_time(backward, work, profile_).seconds()};
  };
  const PassSeconds first = seconds(ops.ends.first), last = seconds(ops.ends.last);
  std::vector<PassSeconds> of_kind;
  for (const PartOps& kind : ops.kinds) of_kind.push_back(seconds(kind));
  const auto of_stage = [&](const StageLayers& layers) {
    PassSeconds sum;
    if (layers.is_first) sum.add(1, first);
    if (layers.is_last) sum.add(1, last);
    for (std::size_t kind = 0; kind < of_kind.size(); ++kind) {
      sum.add(static_cast<double>(layers.of_kind[kind]), of_kind[kind]);
    }
    return sum;
  };
  const double transfer = transfer_seconds(ops.ends.boundary_bytes, work, profile_.network);
  double least = std::numeric_limits<double>::infinity();
  for (const ScheduleChoice& choice : schedule_choices(family)) {
    least = std::min(least, pipeline_seconds(work, choice, transfer, of_stage));
  }
  return least;
}

// The pipeline's first input reaches a rank through the stages before, and its last gradient leaves
// through them; between, the rank computes all of its micro-batches.
template <class OfStage>
double LayoutBounds::pipeline_seconds(const Workload& work, const ScheduleChoice& choice,
                                      double transfer, const OfStage& seconds_of) {
  const auto ranks = static_cast<std::size_t>(work.mesh.pipeline);
  const StageDivision& divided = parts_.division(work.mesh.pipeline * choice.virtual_stages);
  std::vector<PassSeconds> distinct;
  for (const StageLayers& layers : divided.distinct) distinct.push_back(seconds_of(layers));
  const auto of_stage = [&](std::size_t stage) { return distinct[divided.of_stage[stage]]; };
  const auto micro_batches = static_cast<double>(work.spec.micro_batches);
  double least = 0, before = 0;  // of the stages before
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    double own = 0;
    for (std::size_t stage = rank; stage < divided.of_stage.size(); stage += ranks) {
      own += of_stage(stage).forward + of_stage(stage).backward;
    }
    least = std::max(least, before + micro_batches * own);
    // Deferred weight gradients may be computed while the last gradient leaves.
    before += of_stage(rank).forward + transfer;
    if (!choice.schedule->defers_weight_gradients) before += of_stage(rank).backward + transfer;
  }
  return least * slowdown(work.ranks());
}

double LayoutBounds::bytes(const RunConfig& family) {
  const LayoutOps ops = parts_.ops_of(least_work(family));
  double least = std::numeric_limits<double>::infinity();
  for (const ScheduleChoice& choice : schedule_choices(family)) {
    least = std::min(least, bytes(family, ops, choice));
  }
  return least;
}

LayoutBounds::Member::Member(LayoutBounds& bounds, const RunConfig& layout)
    : bounds_(bounds),
      work_(workload_of(layout, bounds.expert_imbalance_)),
      recorded_(bounds.parts_.ops_of(work_)),
      times_(bounds.parts_.times_of(work_, recorded_)),
      without_update_(times_) {
  const auto drop_update = [](PartTimes& part) {
    const MessageTime sent = part.finish.data;
    part.finish = part.update = {};
    part.finish.data = sent;
    part.state = {};
  };
  std::for_each(without_update_.kinds.begin(), without_update_.kinds.end(), drop_update);
  drop_update(without_update_.first);
  drop_update(without_update_.last);
}

double LayoutBounds::Member::seconds(const ScheduleChoice& choice) {
  const auto of_stage = [&](const StageLayers& layers) {
    const StageCosts costs = stage_costs(times_, work_, bounds_.profile_.network, layers);
    return PassSeconds{costs.forward.seconds(), costs.backward.seconds()};
  };
  return bounds_.pipeline_seconds(work_, choice, times_.transfer, of_stage);
}

double LayoutBounds::Member::seconds_by_simulation(const ScheduleChoice& choice) {
  if (bounds_.profile_.cores > 0) return seconds(choice);  // a faster rank is not a faster pipeline
  const StageDivision& division =
      bounds_.parts_.division(work_.mesh.pipeline * choice.virtual_stages);
  const std::vector<StageCosts> stages =
      costs_of_stages(times_, work_, bounds_.profile_, division.layers_per_stage);
  return bounds_.parts_.simulation(work_, choice).run(action_costs(stages, times_)).makespan *
         bounds_.slowdown(work_.ranks());
}

double LayoutBounds::Member::seconds_without_update(const ScheduleChoice& choice) {
  work_.spec.parallelism.layers_per_stage =
      bounds_.parts_.division(work_.mesh.pipeline * choice.virtual_stages).layers_per_stage;
  return estimate_step(work_, without_update_, bounds_.profile_,
                       bounds_.parts_.simulation(work_, choice))
      .seconds;
}

double LayoutBounds::bytes(const RunConfig& layout, const LayoutOps& ops,
                           const ScheduleChoice& choice) {
  const ParallelismConfig& p = layout.parallelism;
  const std::int64_t ranks = p.pipeline, stages = choice.virtual_stages;
  const StageDivision& divided = parts_.division(ranks * stages);
  const bool keeps_activations = !device_.is_cuda() || !layout.activation_checkpoint.offload;
  double state = state_bytes({embedding_, 0}, p);
  std::vector<double> kind_bytes;
  for (const Parameters& kind : kinds_) kind_bytes.push_back(state_bytes(kind, p));
  double workspace = ops.ends.first.workspace_bytes;
  std::vector<double> saved;  // of a micro-batch, by stage of the rank
  for (std::int64_t i = 0; i < stages; ++i) {
    const std::size_t distinct = divided.of_stage[static_cast<std::size_t>(i * ranks)];
    const std::vector<std::int64_t>& layers = divided.distinct[distinct].of_kind;
    double activations = 0;
    for (std::size_t kind = 0; kind < layers.size(); ++kind) {
      const auto count = static_cast<double>(layers[kind]);
      state += count * kind_bytes[kind];
      if (keeps_activations) activations += count * ops.kinds[kind].saved_bytes;
      if (count > 0) workspace = std::max(workspace, ops.kinds[kind].workspace_bytes);
    }
    saved.push_back(activations);
  }
  // Forwards before the first backward, in groups of `ranks` micro-batches through each stage.
  const std::int64_t until_gradient = stages > 1 ? 2 * (ranks - 1) : ranks - 1;
  const std::int64_t ahead = until_gradient + (stages - 1) * ranks + 1;
  double in_flight = 0;
  for (std::int64_t k = 0; k < std::min(ahead, micro_batches_per_step(layout) * stages); ++k) {
    in_flight += saved[static_cast<std::size_t>(k / ranks % stages)];
  }
  return state + in_flight + workspace;
}

double LayoutBounds::Member::bytes(const ScheduleChoice& choice) const {
  return bounds_.bytes(work_.spec, recorded_, choice);
}

}  // namespace trireme
