#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace trireme::checkpoint {

// Maps ranks to nodes, which share memory. The copy of a rank's shard is on the next node of a
// ring.
class Nodes {
 public:
  // The node of each rank; nodes are numbered from 0 without gaps.
  explicit Nodes(std::vector<int> of_rank);
  static Nodes by_host(const std::vector<std::string>& host_of_rank);

  int count() const { return static_cast<int>(ranks_.size()); }
  int of(int rank) const { return of_rank_[static_cast<std::size_t>(rank)]; }
  const std::vector<int>& ranks(int node) const { return ranks_[static_cast<std::size_t>(node)]; }
  // The rank that does the per-node work.
  int leader(int node) const { return ranks(node).front(); }
  bool leads(int rank) const { return leader(of(rank)) == rank; }
  // Index of a rank among those of its node.
  std::size_t place(int rank) const;

  // The rank that keeps the copy of `rank`'s shard; nullopt on a single node.
  std::optional<int> keeper(int rank) const;
  // The ranks whose copies `rank` keeps, ascending.
  std::vector<int> kept_by(int rank) const;

 private:
  std::vector<int> of_rank_;
  std::vector<std::vector<int>> ranks_;  // by node, ascending
};

}  // namespace trireme::checkpoint
