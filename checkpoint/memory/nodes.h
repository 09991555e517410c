#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace trireme::checkpoint {

// Which ranks share a machine, and with it what lies in its memory. A copy of each rank's
// part of a snapshot is kept on the next node in a ring.
class Nodes {
 public:
  // The node of each rank: 0, 1 ..., every number used.
  explicit Nodes(std::vector<int> of_rank);
  static Nodes by_host(const std::vector<std::string>& host_of_rank);

  int count() const { return static_cast<int>(ranks_.size()); }
  int of(int rank) const { return of_rank_[static_cast<std::size_t>(rank)]; }
  const std::vector<int>& ranks(int node) const { return ranks_[static_cast<std::size_t>(node)]; }
  // The rank that does for its node what is done there once.
  int leader(int node) const { return ranks(node).front(); }
  bool leads(int rank) const { return leader(of(rank)) == rank; }
  // The place of a rank among those of its node.
  std::size_t place(int rank) const;

  // Who keeps the copy of what `rank` writes; nobody where there is but one node.
  std::optional<int> keeper(int rank) const;
  // Those whose copies `rank` keeps, in rising order.
  std::vector<int> kept_by(int rank) const;

 private:
  std::vector<int> of_rank_;
  std::vector<std::vector<int>> ranks_;  // of each node, in rising order
};

}  // namespace trireme::checkpoint
