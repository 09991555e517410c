#include "trainer/tools/plan/search/layout_parts.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "model/stage/layer_config.h"
#include "trainer/engine/pipeline_layout.h"
#include "trainer/tools/plan/device/matmul_format.h"

namespace trireme {
namespace {

// The model states of the layouts recorded last take some hundred megabytes.
constexpr std::size_t kStates = 512;

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

// By which ops of a layout with fewer data ranks are multiplied for the shards of another, which
// are smaller among more ranks: replicas sum the gradients of their shards, and ZeRO-2 and 3 add to
// them.
struct ShardScale {
  double dense = 1, experts = 1;

  ShardScale(const ParallelismConfig& recorded, const ParallelismConfig& layout) {
    const auto ratio = [](std::int64_t a, std::int64_t b) {
      constexpr double kPadding = 0.99;  // of the shards recorded
      return a == b ? 1 : kPadding * static_cast<double>(a) / static_cast<double>(b);
    };
    dense = ratio(recorded.data_shard, layout.data_shard);
    experts = ratio(expert_shards(recorded), expert_shards(layout));
  }

  PartOps operator()(PartOps part) const {
    if (dense == 1 && experts == 1) return part;
    for (PartOps::List* list :
         {&part.forward, &part.backward, &part.backward_input, &part.finish, &part.publish}) {
      for (PlannedOp& op : *list) {
        if (is_copy(op)) op.bytes *= std::min(dense, experts);
        if (op.name == std::string_view("data_replicate")) op.bytes *= dense;
        if (op.name == std::string_view("expert_replicate")) op.bytes *= experts;
      }
    }
    return part;
  }
};

// The layout whose ends are recorded for those of `p`.
void lessen_for_ends(ParallelismConfig& p) {
  p.expert = 1;
  p.context_method = ParallelismConfig{}.context_method;
  p.context_ulysses = 1;
  p.pipeline = std::min<std::int64_t>(p.pipeline, 2);
  lessen_data_ranks(p);
}

}  // namespace

bool is_copy(const PlannedOp& op) {
  return op.kind == PlannedOp::Kind::kMemory && op.name == std::string_view("copy");
}

LayoutParts::LayoutParts(const RunConfig& config, const DeviceProfile& profile)
    : config_(config), profile_(profile), states_(kStates) {
  std::vector<LayerConfig> known;
  for (const LayerConfig& layer : layer_configs(config.model)) {
    const auto found = std::find(known.begin(), known.end(), layer);
    const auto number = static_cast<std::int64_t>(kind_of_.size());
    kind_of_.push_back(static_cast<std::size_t>(found - known.begin()));
    if (found != known.end()) continue;
    known.push_back(layer);
    kinds_.push_back(number);
  }
}

LayoutOps LayoutParts::ops_of(const Workload& work) {
  return {blocks_of(work), ends_of(work)};
}

const std::vector<PartOps>& LayoutParts::blocks_of(const Workload& work) {
  ParallelismConfig p = work.spec.parallelism;
  lessen_data_ranks(p);
  p.pipeline = 1;
  const std::int64_t micro_batches = std::min<std::int64_t>(work.spec.micro_batches, 2),
                     size = work.spec.training.local_batch_size;
  const Recompute recompute = work.spec.activation_checkpoint.mode;
  const StateKey of_state{p.tensor, p.sequence,   context_of(p),    p.zero,
                          p.expert, p.data_shard, p.data_replicate, micro_batches};
  const auto [known, is_new] = blocks_.try_emplace({of_state, size, recompute});
  if (!is_new) return known->second;
  const auto& recorders = states_.of(of_state, [&] {
    EngineSpec spec = recorded_spec(work.spec, profile_);
    spec.parallelism = p;
    spec.micro_batches = micro_batches;
    std::vector<std::unique_ptr<BlockRecorder>> of_kinds;
    for (const std::int64_t layer : kinds_) {
      of_kinds.push_back(block_recorder(spec, mesh_shape(p), profile_.device(), layer));
    }
    return of_kinds;
  });
  for (const std::unique_ptr<BlockRecorder>& recorder : recorders) {
    known->second.push_back(
        in_format_of(profile_, recorder->record(size, recompute, Recorded::kWithoutUpdate)));
  }
  return known->second;
}

const EndOps& LayoutParts::ends_of(const Workload& work) {
  ParallelismConfig p = work.spec.parallelism;
  lessen_for_ends(p);
  const std::int64_t micro_batches = std::min<std::int64_t>(work.spec.micro_batches, 2);
  const EndsKey key{
      p.tensor,     p.sequence,   p.context,        p.pipeline,
      p.zero,       p.data_shard, p.data_replicate, work.spec.training.local_batch_size,
      micro_batches};
  const auto [known, is_new] = ends_.try_emplace(key);
  if (!is_new) return known->second;
  EngineSpec spec = recorded_spec(work.spec, profile_);
  spec.parallelism = p;
  spec.micro_batches = micro_batches;
  known->second = record_ends(spec, mesh_shape(p), profile_.device(), Recorded::kWithoutUpdate);
  return known->second;
}

const LayoutParts::EndTimes& LayoutParts::end_times(const Workload& work, const EndOps& ends) {
  const ParallelismConfig& p = work.spec.parallelism;
  const auto [known, is_new] =
      end_times_.try_emplace({&ends, p.data_shard, p.data_replicate, p.pipeline});
  EndTimes& times = known->second;
  if (!is_new) return times;
  ParallelismConfig few = p, whole = p;
  lessen_for_ends(few);
  whole.expert = 1;
  const ShardScale scale(few, whole);
  times = {.first = part_times(scale(ends.first), work, profile_, false),
           .last = part_times(scale(ends.last), work, profile_, false),
           .transfer = transfer_seconds(ends.boundary_bytes, work, profile_.network),
           .tied = tied_seconds(ends.first, work, profile_.network)};
  return times;
}

StepTimes LayoutParts::times_of(const Workload& work, const LayoutOps& recorded) {
  ParallelismConfig few = work.spec.parallelism;
  lessen_data_ranks(few);
  const ShardScale scale(few, work.spec.parallelism);
  const EndTimes& ends = end_times(work, recorded.ends);
  StepTimes times{.kinds = {},
                  .kind_of = kind_of_,
                  .first = ends.first,
                  .last = ends.last,
                  .transfer = ends.transfer,
                  .boundary_bytes = recorded.ends.boundary_bytes,
                  .tied = ends.tied,
                  .splits_backward = !recorded.kinds.front().backward_input.empty(),
                  .overlaps_data = true};
  for (const PartOps& kind : recorded.kinds) {
    times.kinds.push_back(part_times(scale(kind), work, profile_, true));
  }
  return times;
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
