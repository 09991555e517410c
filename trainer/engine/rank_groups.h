#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/planned_communicator.h"
#include "parallel/comm/world.h"
#include "parallel/context/context_attention.h"
#include "parallel/data/data_ranks.h"
#include "parallel/mesh/mesh.h"
#include "trainer/config/run_config.h"

namespace trireme {

MeshShape mesh_shape(const ParallelismConfig& layout);

// The process groups of a rank. Each use has its own communicator, so that no two can receive each
// other's messages.
struct RankGroups {
  RankGroups();  // of a run with one rank
  // Collective. Throws ConfigError if the layout's world size is not the world's. The world
  // outlives the groups.
  RankGroups(World& world, const ParallelismConfig& layout, const ModelConfig& model);
  // Of `rank`, made by `split` in the order in which all ranks make theirs. A rank outside the
  // layout is alone in all of its groups.
  using Split = std::function<std::unique_ptr<Communicator>(
      const char* name, const std::vector<int>& ranks, Messages messages)>;
  RankGroups(int rank, const Mesh& mesh, const ParallelismConfig& layout, const ModelConfig& model,
             const Split& split);
  // Of `rank` in a planned run of the layout but with the degrees of `shape`, for planning streams.
  // On a GPU the groups are NCCL's, with one rank per GPU, and with ordered sums if `reproducible`.
  // `sent` counts what they send and outlives them. Throws ConfigError if the layout has no such
  // rank.
  RankGroups(int rank, const MeshShape& shape, const ParallelismConfig& layout,
             const ModelConfig& model, Device device, bool reproducible, Traffic& sent);

  std::unique_ptr<Communicator> tensor;       // tensor parallelism
  std::unique_ptr<Communicator> kv_replicas;  // replicas of the same key-value heads within tensor
  std::unique_ptr<Communicator> pp_forward;   // the pipeline, for activations
  std::unique_ptr<Communicator> pp_backward;  // the pipeline, for gradients
  std::unique_ptr<Communicator>
      embedding_group;                    // first and last pipeline stage; else this rank alone
  std::unique_ptr<Communicator> context;  // context parallelism: ranks that shard sequences
  // Its two levels, if it has both; else this rank.
  std::unique_ptr<Communicator> context_heads, context_between;
  std::unique_ptr<Communicator> context_back;  // for gradients of a ring; else this rank
  std::unique_ptr<Communicator> data;          // data parallelism: replicate x shard
  // Data and context ranks: those that shard the optimizer state, and replicas of the same shard.
  std::unique_ptr<Communicator> shard;
  std::unique_ptr<Communicator> replicate;
  std::unique_ptr<Communicator>
      model_state;                    // ranks that together hold one copy of the model state
  std::unique_ptr<Communicator> all;  // every rank of the run
  // Null without expert parallelism.
  std::unique_ptr<Communicator> expert;       // ranks that divide the experts among themselves
  std::unique_ptr<Communicator> expert_data;  // as data, shard and replicate, of these experts
  std::unique_ptr<Communicator> expert_shard;
  std::unique_ptr<Communicator> expert_replicate;
  FlightRecorder* recorder = nullptr;  // the world's; null with one rank
  Traffic* sent = nullptr;             // of planned groups
  std::string mapping;                 // of ranks to hosts, for the run's first lines
  std::string transport;               // how tensors travel between ranks, for the same
  std::string warning;                 // about a slow mapping; empty if there is none

  ContextGroups context_levels(ContextMethod method) const;
  // This rank's share of the experts.
  Slice experts() const;
  DataRanks data_ranks(ParamGroup group) const;
  GroupRanks data_ranks() const;
  // Whether no lower rank of model_state has the same shard of the dense parameters: several have
  // if these have more replicas than the experts.
  bool is_primary_of_dense() const;

  // Of all the groups' communication buffers.
  std::size_t buffer_bytes() const;
};

// The groups of a layout on the first `ranks` of the world; each further rank is alone in all of
// its groups. Otherwise like RankGroups' constructor.
RankGroups groups_of_first(int ranks, World& world, const ParallelismConfig& layout,
                           const ModelConfig& model);

}  // namespace trireme
