#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/engine/engine.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/engine/replica_verdict.h"

namespace trireme {

// Whether all that several ranks hold is the same on each, to the bit: the weights of data
// ranks that have them whole, masters and moments of those that own the same part, what is
// not split of the ranks that share each matrix, the tied embedding of the pipeline's ends.
// Ranks that read one copy in common memory are one. Every step makes them equal as long as
// each computes and remembers rightly.
class ReplicaCheck {
 public:
  // Both outlive it. `weights_in_common`: Arenas'.
  ReplicaCheck(Engine& engine, const RankGroups& groups, bool weights_in_common);

  // What this rank holds that others hold, too.
  std::uint64_t bytes() const;
  // Reads all of that once and compares it, between two steps. Collective; the same on all ranks.
  std::optional<ReplicaVerdict> find();

 private:
  struct Copy {
    std::string tensor, place;
    Tensor bits;
    std::vector<std::size_t> groups;  // of groups_, all of whose ranks hold it
  };
  void add(const char* kind, const Param& param, std::int64_t first, const Tensor& run,
           const std::vector<Communicator*>& groups);
  std::vector<Communicator*> holders_beside(const Param& param) const;
  std::vector<bool> groups_that_differ(const std::vector<std::uint64_t>& hashes);

  Engine& engine_;
  const RankGroups& ranks_;
  std::vector<Communicator*> groups_;  // in the same order on all ranks
  std::vector<Copy> copies_;
};

}  // namespace trireme
