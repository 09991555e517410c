#pragma once
#include "parallel/comm/communicator.h"

namespace trireme {

// The ranks with the same share of the model and other data: `shard` divides the state
// among itself, `replicate` are those with the same part of it (hybrid sharding). Counted
// along replicate first, a rank is replicate.rank() * shard.size() + shard.rank().
struct DataRanks {
  Communicator& shard;
  Communicator& replicate;
};

}  // namespace trireme
