#pragma once
#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// Ranks with the same parameters and different data: the ranks of `shard` divide the
// training state among themselves, the ranks of `replicate` hold the same shard (HSDP). The data
// rank is replicate.rank() * shard.size() + shard.rank().
struct DataRanks {
  Communicator& shard;
  Communicator& replicate;
};

// These by group of parameters. Under expert parallelism experts have fewer such ranks: one in
// each of the groups that together hold all experts.
struct GroupRanks {
  GroupRanks(const DataRanks& all) : dense(all), experts(all) {}  // NOLINT: ranks of both groups
  GroupRanks(const DataRanks& of_dense, const DataRanks& of_experts)
      : dense(of_dense), experts(of_experts) {}
  const DataRanks& of(ParamGroup group) const {
    return group == ParamGroup::kDense ? dense : experts;
  }

  DataRanks dense, experts;
};

}  // namespace trireme
