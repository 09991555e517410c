#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/engine/engine.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/engine/replica_verdict.h"

namespace trireme {

// Compares replicated state bit for bit: weights that several data-parallel ranks hold completely,
// masters and moments of ranks that own the same shard, parameters that tensor parallelism does not
// shard, and the tied embedding on the first and last pipeline stage. Ranks that read one copy in
// shared memory count as one. After every step the replicas are equal unless a rank's computation
// or memory is faulty.
class ReplicaCheck {
 public:
  // `engine` and `groups` outlive the check. `weights_in_common`: see Arenas.
  ReplicaCheck(Engine& engine, const RankGroups& groups, bool weights_in_common);

  // Bytes of this rank's replicated state.
  std::uint64_t bytes() const;
  // Hashes that state and compares the hashes, between two steps. Collective; returns the same on
  // all ranks, and nothing if all replicas are equal.
  std::optional<ReplicaVerdict> find();

 private:
  struct Copy {
    std::string tensor, place;
    Tensor bits;
    std::vector<std::size_t> groups;  // indices into groups_; every rank of these has a copy
  };
  void add(const char* kind, const Param& param, std::int64_t first, const Tensor& range,
           const std::vector<Communicator*>& groups);
  std::vector<Communicator*> model_parallel_replicas(const Param& param) const;
  std::vector<bool> groups_that_differ(const std::vector<std::uint64_t>& hashes);

  Engine& engine_;
  const RankGroups& ranks_;
  std::vector<Communicator*> groups_;  // in the same order on all ranks
  std::vector<Copy> copies_;
};

}  // namespace trireme
