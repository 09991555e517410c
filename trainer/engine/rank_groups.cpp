#include "trainer/engine/rank_groups.h"

#include "parallel/comm/self_communicator.h"
#include "parallel/mesh/mesh.h"
#include "parallel/tensor/tensor_split.h"

namespace trireme {

RankGroups::RankGroups()
    : tensor(std::make_unique<SelfCommunicator>()),
      key_value(std::make_unique<SelfCommunicator>()),
      down(std::make_unique<SelfCommunicator>()),
      up(std::make_unique<SelfCommunicator>()),
      ends(std::make_unique<SelfCommunicator>()),
      data(std::make_unique<SelfCommunicator>()),
      shard(std::make_unique<SelfCommunicator>()),
      replicate(std::make_unique<SelfCommunicator>()),
      state(std::make_unique<SelfCommunicator>()),
      all(std::make_unique<SelfCommunicator>()) {}

namespace {

Mesh mesh_of(const ParallelismConfig& layout, int ranks) {
  try {
    return Mesh({.pipeline = layout.pipeline,
                 .data_replicate = layout.data_replicate,
                 .data_shard = layout.data_shard,
                 .context = layout.context,
                 .tensor = layout.tensor,
                 .expert = layout.expert},
                ranks);
  } catch (const ConfigError& error) {
    throw on_all_ranks(ConfigError(error.what()));
  }
}

// The run of `count` neighbours in `ranks` that `index` belongs to.
std::vector<int> neighbours(const std::vector<int>& ranks, int index, int count) {
  const auto first = ranks.begin() + index / count * count;
  return {first, first + count};
}

}  // namespace

RankGroups::RankGroups(World& world, const ParallelismConfig& layout, const ModelConfig& config) {
  const Mesh mesh = mesh_of(layout, world.size());
  const int rank = world.rank();
  const auto along = [&](const std::vector<Axis>& axes) { return mesh.group(rank, axes); };
  const std::vector<int> of_tensor = along({Axis::kTensor});
  const std::vector<int> of_pipeline = along({Axis::kPipeline});
  const bool at_an_end = rank == of_pipeline.front() || rank == of_pipeline.back();
  const std::vector<int> of_ends = at_an_end && of_pipeline.size() > 1
                                       ? std::vector{of_pipeline.front(), of_pipeline.back()}
                                       : std::vector{rank};
  tensor = world.split("tensor", of_tensor);
  key_value = world.split("key_value", neighbours(of_tensor, tensor->rank(),
                                                  key_value_replicas(config, tensor->size())));
  down = world.split("pipeline_down", of_pipeline, World::kBufferBytes, Messages::kSent);
  up = world.split("pipeline_up", of_pipeline, World::kBufferBytes, Messages::kSent);
  ends = world.split("pipeline_ends", of_ends);
  const std::vector<int> of_data = along({Axis::kDataReplicate, Axis::kDataShard});
  data = world.split("data", of_data);
  if (layout.zero == 0) {
    shard = world.split("data_shard", {rank});
    replicate = world.split("data_replicate", of_data);
    state = world.split("state", along({Axis::kPipeline, Axis::kTensor}));
  } else {
    shard = world.split("data_shard", along({Axis::kDataShard}));
    replicate = world.split("data_replicate", along({Axis::kDataReplicate}));
    state = world.split("state", along({Axis::kPipeline, Axis::kDataShard, Axis::kTensor}));
  }
  all = world.split("all", along({Axis::kPipeline, Axis::kDataReplicate, Axis::kDataShard,
                                  Axis::kContext, Axis::kTensor}));
  ledger = &world.ledger();
  mapping = mesh.describe(world.hosts());
  transport = world.transport();
  warning = mesh.warning(world.hosts());
}

std::size_t RankGroups::buffer_bytes() const {
  std::size_t bytes = 0;
  for (const auto& group :
       {&tensor, &key_value, &down, &up, &ends, &data, &shard, &replicate, &state, &all}) {
    bytes += (*group)->buffer_bytes();
  }
  return bytes;
}

}  // namespace trireme
