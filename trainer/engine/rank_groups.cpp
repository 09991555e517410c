#include "trainer/engine/rank_groups.h"

#include <algorithm>
#include <set>

#include "parallel/comm/planned_communicator.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/mesh/mesh.h"
#include "parallel/tensor/partial_gradients.h"

namespace trireme {

RankGroups::RankGroups()
    : tensor(std::make_unique<SelfCommunicator>()),
      kv_replicas(std::make_unique<SelfCommunicator>()),
      pp_forward(std::make_unique<SelfCommunicator>()),
      pp_backward(std::make_unique<SelfCommunicator>()),
      embedding_group(std::make_unique<SelfCommunicator>()),
      context(std::make_unique<SelfCommunicator>()),
      context_heads(std::make_unique<SelfCommunicator>()),
      context_between(std::make_unique<SelfCommunicator>()),
      context_back(std::make_unique<SelfCommunicator>()),
      data(std::make_unique<SelfCommunicator>()),
      shard(std::make_unique<SelfCommunicator>()),
      replicate(std::make_unique<SelfCommunicator>()),
      model_state(std::make_unique<SelfCommunicator>()),
      all(std::make_unique<SelfCommunicator>()) {}

namespace {

Mesh mesh_of(const MeshShape& shape, std::int64_t ranks) {
  try {
    return Mesh(shape, static_cast<int>(ranks));
  } catch (const ConfigError& error) {
    throw on_all_ranks(ConfigError(error.what()));
  }
}

// The aligned group of `count` consecutive `ranks` with the one at `index`.
std::vector<int> consecutive(const std::vector<int>& ranks, int index, int count) {
  const auto first = ranks.begin() + index / count * count;
  return {first, first + count};
}

// Those of `ranks` whose position differs from `index` by multiples of `stride`.
std::vector<int> strided(const std::vector<int>& ranks, int index, int stride) {
  std::vector<int> members;
  for (int i = index % stride; i < static_cast<int>(ranks.size()); i += stride) {
    members.push_back(ranks[i]);
  }
  return members;
}

void form_context(RankGroups& groups, const std::vector<int>& ranks, int rank,
                  const ParallelismConfig& layout, const RankGroups::Split& split) {
  const auto of_heads = static_cast<int>(ulysses_ranks(layout));
  const auto own = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  const std::vector<int> alone{rank};
  const bool has_both = of_heads > 1 && of_heads < std::ssize(ranks);
  const std::vector<int> between = has_both ? strided(ranks, own, of_heads) : ranks;
  const Messages messages = messages_of(layout.context_method);
  const bool is_ring = layout.context_method == ContextMethod::kRing;
  groups.context = split("context", ranks, has_both ? Messages::kNone : messages);
  groups.context_heads = split(
      "context_heads", has_both ? consecutive(ranks, own, of_heads) : alone, Messages::kExchanged);
  groups.context_between = split("context_between", has_both ? between : alone, messages);
  groups.context_back = split("context_back", is_ring ? between : alone, Messages::kSent);
}

// A rank outside the mesh is alone in all of its groups.
void form(RankGroups& groups, const Mesh& mesh, int rank, const ParallelismConfig& layout,
          const ModelConfig& config, const RankGroups::Split& split) {
  const auto along = [&](const std::vector<Axis>& axes) {
    return rank < mesh.size() ? mesh.group(rank, axes) : std::vector{rank};
  };
  const std::vector<int> of_tensor = along({Axis::kTensor});
  const std::vector<int> of_pipeline = along({Axis::kPipeline});
  const bool at_an_end = rank == of_pipeline.front() || rank == of_pipeline.back();
  const std::vector<int> of_ends = at_an_end && of_pipeline.size() > 1
                                       ? std::vector{of_pipeline.front(), of_pipeline.back()}
                                       : std::vector{rank};
  groups.tensor = split("tensor", of_tensor, Messages::kNone);
  groups.kv_replicas = split("key_value",
                             consecutive(of_tensor, groups.tensor->rank(),
                                         key_value_replicas(config, groups.tensor->size())),
                             Messages::kNone);
  groups.pp_forward = split("pipeline_down", of_pipeline, Messages::kSent);
  groups.pp_backward = split("pipeline_up", of_pipeline, Messages::kSent);
  groups.embedding_group = split("pipeline_ends", of_ends, Messages::kNone);
  form_context(groups, along({Axis::kContext}), rank, layout, split);
  groups.data = split("data", along({Axis::kDataReplicate, Axis::kDataShard}), Messages::kNone);
  const bool is_sharded = layout.zero > 0;
  const bool is_compressed = layout.compression.method != CompressionOptions::Method::kNone;
  groups.shard = split("data_shard",
                       is_sharded ? along({Axis::kDataShard, Axis::kContext}) : std::vector{rank},
                       Messages::kNone);
  groups.replicate =
      split("data_replicate",
            is_sharded ? along({Axis::kDataReplicate})
                       : along({Axis::kDataReplicate, Axis::kDataShard, Axis::kContext}),
            is_compressed ? Messages::kExchanged : Messages::kNone);
  const int experts = mesh.extent(Axis::kExpert);
  const int shards = is_sharded ? mesh.extent(Axis::kDataShard) * mesh.extent(Axis::kContext) : 1;
  groups.model_state = split(
      "state",
      shards > experts ? along({Axis::kPipeline, Axis::kDataShard, Axis::kContext, Axis::kTensor})
                       : along({Axis::kPipeline, Axis::kExpert, Axis::kTensor}),
      Messages::kNone);
  if (experts > 1) {
    groups.expert = split("expert", along({Axis::kExpert}), Messages::kExchanged);
    const std::vector<int> holders = along({Axis::kExpertReplicate});
    const auto own = std::find(holders.begin(), holders.end(), rank) - holders.begin();
    groups.expert_data = split("expert_data", holders, Messages::kNone);
    const int expert_shards =
        std::min(std::max(1, shards / experts), static_cast<int>(holders.size()));
    groups.expert_shard =
        split("expert_shard", consecutive(holders, static_cast<int>(own), expert_shards),
              Messages::kNone);
    groups.expert_replicate =
        split("expert_replicate", strided(holders, static_cast<int>(own), expert_shards),
              Messages::kNone);
  }
  groups.all = split("all",
                     along({Axis::kPipeline, Axis::kDataReplicate, Axis::kDataShard, Axis::kContext,
                            Axis::kTensor}),
                     Messages::kNone);
}

}  // namespace

MeshShape mesh_shape(const ParallelismConfig& layout) {
  return {.pipeline = layout.pipeline,
          .data_replicate = layout.data_replicate,
          .data_shard = layout.data_shard,
          .context = layout.context,
          .tensor = layout.tensor,
          .expert = layout.expert};
}

RankGroups::RankGroups(World& world, const ParallelismConfig& layout, const ModelConfig& config)
    : RankGroups(groups_of_first(world.size(), world, layout, config)) {}

RankGroups::RankGroups(int rank, const Mesh& mesh, const ParallelismConfig& layout,
                       const ModelConfig& config, const Split& split) {
  form(*this, mesh, rank, layout, config, split);
}

RankGroups groups_of_first(int ranks, World& world, const ParallelismConfig& layout,
                           const ModelConfig& config) {
  const Mesh mesh = mesh_of(mesh_shape(layout), ranks);
  RankGroups groups(world.rank(), mesh, layout, config,
                    [&](const char* name, const std::vector<int>& members, Messages messages) {
                      return world.split(name, members, World::kBufferBytes, messages);
                    });
  const std::vector<std::string> hosts(world.hosts().begin(), world.hosts().begin() + ranks);
  groups.recorder = &world.recorder();
  groups.mapping = mesh.describe(hosts);
  groups.transport = world.transport();
  groups.warning = mesh.warning(hosts);
  return groups;
}

RankGroups::RankGroups(int rank, const MeshShape& shape, const ParallelismConfig& layout,
                       const ModelConfig& config, Device device, bool reproducible,
                       Traffic& counted)
    : sent(&counted) {
  const Mesh mesh = mesh_of(shape, shape.ranks());
  require(rank >= 0 && rank < mesh.size(), "no rank ", rank, " in a run of ", mesh.size(),
          " ranks");
  std::set<std::vector<int>> known;  // NCCL's buffer is shared by groups with equal members
  form(*this, mesh, rank, layout, config,
       [&](const char* name, const std::vector<int>& ranks,
           Messages) -> std::unique_ptr<Communicator> {
         if (ranks.size() == 1) return std::make_unique<SelfCommunicator>();
         const bool takes_memory = device.is_cuda() && known.insert(ranks).second;
         const std::size_t buffer =
             comm::kHostBufferBytes + (takes_memory ? comm::nccl_buffer_bytes(reproducible) : 0);
         const auto own = std::find(ranks.begin(), ranks.end(), rank) - ranks.begin();
         return std::make_unique<PlannedCommunicator>(
             name, static_cast<int>(own), static_cast<int>(ranks.size()), buffer, counted[name]);
       });
}

ContextGroups RankGroups::context_levels(ContextMethod method) const {
  if (context_heads->size() > 1) return {*context_heads, *context_between, *context_back};
  if (method == ContextMethod::kUlysses) return {*context, *context_between, *context_back};
  return {*context_heads, *context, *context_back};
}

Slice RankGroups::experts() const {
  return expert ? Slice{expert->rank(), expert->size()} : Slice{};
}

DataRanks RankGroups::data_ranks(ParamGroup group) const {
  if (group == ParamGroup::kDense || !expert) return {*shard, *replicate};
  return {*expert_shard, *expert_replicate};
}

GroupRanks RankGroups::data_ranks() const {
  return {data_ranks(ParamGroup::kDense), data_ranks(ParamGroup::kExperts)};
}

bool RankGroups::is_primary_of_dense() const {
  return replicate->rank() % std::max(1, experts().count / shard->size()) == 0;
}

std::size_t RankGroups::buffer_bytes() const {
  std::size_t bytes = 0;
  for (const auto* group :
       {&tensor, &kv_replicas, &pp_forward, &pp_backward, &embedding_group, &context,
        &context_heads, &context_between, &context_back, &data, &shard, &replicate, &model_state,
        &all, &expert, &expert_data, &expert_shard, &expert_replicate}) {
    if (*group) bytes += (*group)->buffer_bytes();
  }
  return bytes;
}

}  // namespace trireme
