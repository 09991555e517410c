#pragma once
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/traffic.h"
#include "parallel/comm/world.h"
#include "parallel/mesh/mesh.h"
#include "trainer/config/run_config.h"

namespace trireme {

// A rank's place in the layout of a run, and the groups it talks in. Each group is a
// communicator of its own, so that no two uses can take each other's messages.
struct RankGroups {
  RankGroups();  // alone
  // Collective. Throws ConfigError when the layout wants another number of ranks than
  // there are. The world outlives the groups.
  RankGroups(World& world, const ParallelismConfig& layout, const ModelConfig& model);
  // The place of `rank` in a run that is only planned, for planning streams. On a GPU the groups
  // are NCCL's, one rank a GPU. What they send is counted in `sent`, which outlives them. Throws
  // ConfigError when the layout has not got the rank.
  RankGroups(int rank, const ParallelismConfig& layout, const ModelConfig& model, Device device,
             Traffic& sent);

  std::unique_ptr<Communicator> tensor;     // those that share each matrix
  std::unique_ptr<Communicator> key_value;  // of these, those that hold the same key-value heads
  std::unique_ptr<Communicator> down;       // the pipeline, for activations
  std::unique_ptr<Communicator> up;         // the pipeline, for gradients
  std::unique_ptr<Communicator> ends;       // the pipeline's first and last, or this rank alone
  std::unique_ptr<Communicator> data;       // those with the same share of the model
  std::unique_ptr<Communicator> shard;      // of these, those that divide its state
  std::unique_ptr<Communicator> replicate;  // and those that own the same part of it
  std::unique_ptr<Communicator> state;      // those that hold a whole copy of it together
  std::unique_ptr<Communicator> all;        // the ranks of the run
  Ledger* ledger = nullptr;                 // the world's; nobody's when alone
  Traffic* sent = nullptr;                  // of groups that are only planned
  std::string mapping;                      // who is where, for people
  std::string transport;                    // how tensors travel between ranks, for people
  std::string warning;                      // of a mapping that will be slow, or empty

  // What the groups have taken for messages on their way.
  std::size_t buffer_bytes() const;
};

// The groups of a layout in the first `ranks` of the world; each of the other ranks is alone in
// all of its groups. As RankGroups' constructor, which is for all ranks of the world.
RankGroups groups_of_first(int ranks, World& world, const ParallelismConfig& layout,
                           const ModelConfig& model);

}  // namespace trireme
