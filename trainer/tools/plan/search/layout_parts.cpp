#include "trainer/tools/plan/search/layout_parts.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "model/stage/layer_config.h"
#include "trainer/engine/pipeline_layout.h"
#include "trainer/tools/plan/device/matmul_format.h"

namespace trireme {
namespace {

// At most two ranks in each group of data ranks, also of those that have the same experts.
void lessen_data_ranks(ParallelismConfig& p) {
  const auto few = [](std::int64_t ranks) { return std::min<std::int64_t>(ranks, 2); };
  const std::int64_t shards = p.data_shard * p.context;
  if (p.expert == 1) {
    p.data_shard = few(p.data_shard);
    p.data_replicate = few(p.data_replicate);
  } else if (shards % p.expert != 0) {
    const std::int64_t needed = p.expert / shards;  // replicas that divide the experts
    p.data_replicate = needed * few(p.data_replicate / needed);
  } else if (const std::int64_t less = few(shards / p.expert) * p.expert; less % p.context == 0) {
    p.data_shard = less / p.context;
    p.data_replicate = few(p.data_replicate);
  }
}

// Ranks that shard the experts that each holds (RankGroups).
std::int64_t expert_shards(const ParallelismConfig& p) {
  return std::max<std::int64_t>(1, p.data_shard * p.context / p.expert);
}

// `ops` of a layout with fewer data ranks, with the shards of `layout`, which are smaller among
// more ranks: replicas sum the gradients of their shards, and ZeRO-2 and 3 add to them.
StepOps with_shards_of(StepOps ops, const ParallelismConfig& recorded,
                       const ParallelismConfig& layout) {
  const auto ratio = [](std::int64_t a, std::int64_t b) {
    constexpr double kPadding = 0.99;  // of the shards recorded
    return a == b ? 1 : kPadding * static_cast<double>(a) / static_cast<double>(b);
  };
  const double dense = ratio(recorded.data_shard, layout.data_shard);
  const double experts = ratio(expert_shards(recorded), expert_shards(layout));
  const auto scale = [&](PartOps::List& list) {
    for (PlannedOp& op : list) {
      if (is_copy(op)) op.bytes *= std::min(dense, experts);
      if (op.name == std::string_view("data_replicate")) op.bytes *= dense;
      if (op.name == std::string_view("expert_replicate")) op.bytes *= experts;
    }
  };
  const auto scale_part = [&](PartOps& part) {
    for (PartOps::List* list :
         {&part.forward, &part.backward, &part.backward_input, &part.finish, &part.publish}) {
      scale(*list);
    }
  };
  std::for_each(ops.kinds.begin(), ops.kinds.end(), scale_part);
  scale_part(ops.first);
  scale_part(ops.last);
  return ops;
}

}  // namespace

bool is_copy(const PlannedOp& op) {
  return op.kind == PlannedOp::Kind::kMemory && op.name == std::string_view("copy");
}

LayoutParts::LayoutParts(const RunConfig& config, const DeviceProfile& profile)
    : config_(config), profile_(profile) {
  std::vector<LayerConfig> known;
  for (const LayerConfig& layer : layer_configs(config.model)) {
    const auto found = std::find(known.begin(), known.end(), layer);
    kind_of_.push_back(static_cast<std::size_t>(found - known.begin()));
    if (found == known.end()) known.push_back(layer);
  }
  kinds_ = known.size();
}

// Recorded with few data and pipeline ranks.
const StepOps& LayoutParts::ops_of(const Workload& work) {
  EngineSpec spec = work.spec;
  ParallelismConfig& p = spec.parallelism;
  lessen_data_ranks(p);
  p.pipeline = std::min<std::int64_t>(p.pipeline, 2);
  spec.micro_batches = std::min<std::int64_t>(spec.micro_batches, 2);
  const OpsKey key{p.tensor,
                   p.sequence,
                   context_of(p),
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
    known = ops_.emplace(key, record_step(spec, mesh_shape(p), profile_, Recorded::kWithoutUpdate))
                .first;
  }
  return known->second;
}

StepTimes LayoutParts::times_of(const Workload& work, const StepOps& recorded) const {
  ParallelismConfig few = work.spec.parallelism;
  lessen_data_ranks(few);
  return step_times(with_shards_of(recorded, few, work.spec.parallelism), work, profile_);
}

const StageDivision& LayoutParts::division(std::int64_t stages) {
  const auto [known, is_new] = divisions_.try_emplace(stages);
  StageDivision& division = known->second;
  if (!is_new) return division;
  EngineSpec spec = engine_spec(config_);
  spec.parallelism.layers_per_stage.clear();
  division.layers_per_stage = divide_layers(spec, static_cast<int>(stages));
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < division.layers_per_stage.size(); ++stage) {
    StageLayers layers{.of_kind = std::vector<std::int64_t>(kinds_),
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

const Simulation& LayoutParts::simulation(const Workload& work, const ScheduleChoice& choice) {
  PipelineShape shape = pipeline_shape(work);
  shape.virtual_stages = static_cast<int>(choice.virtual_stages);
  const ScheduleKey key{choice.schedule, shape.ranks, shape.micro_batches, shape.virtual_stages};
  const auto known = simulations_.find(key);
  if (known != simulations_.end()) return known->second;
  // Not checked: what is simulated without a deadlock serves to skip it, and the plan checks it.
  return simulations_.try_emplace(key, choice.schedule->make(shape)).first->second;
}

}  // namespace trireme
