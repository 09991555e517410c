#pragma once
#include "parallel/comm/communicator.h"

namespace trireme {

// Ranks with the same model shard and different data: the ranks of `shard` divide the
// training state among themselves, the ranks of `replicate` hold the same shard (HSDP). The data
// rank is replicate.rank() * shard.size() + shard.rank().
struct DataRanks {
  Communicator& shard;
  Communicator& replicate;
};

}  // namespace trireme
