#include "checkpoint/memory/nodes.h"

#include <algorithm>

#include "model/base/error.h"

namespace trireme::checkpoint {

Nodes::Nodes(std::vector<int> of_rank) : of_rank_(std::move(of_rank)) {
  for (std::size_t rank = 0; rank < of_rank_.size(); ++rank) {
    const auto node = static_cast<std::size_t>(of_rank_[rank]);
    require(of_rank_[rank] >= 0 && node < of_rank_.size(), "a rank on node ", of_rank_[rank]);
    if (node >= ranks_.size()) ranks_.resize(node + 1);
    ranks_[node].push_back(static_cast<int>(rank));
  }
  for (const auto& ranks : ranks_) require(!ranks.empty(), "a node without ranks");
}

Nodes Nodes::by_host(const std::vector<std::string>& host_of_rank) {
  std::vector<std::string> hosts;
  std::vector<int> of_rank;
  for (const std::string& host : host_of_rank) {
    const auto at = std::find(hosts.begin(), hosts.end(), host);
    of_rank.push_back(static_cast<int>(at - hosts.begin()));
    if (at == hosts.end()) hosts.push_back(host);
  }
  return Nodes(std::move(of_rank));
}

std::size_t Nodes::place(int rank) const {
  const std::vector<int>& all = ranks(of(rank));
  return static_cast<std::size_t>(std::find(all.begin(), all.end(), rank) - all.begin());
}

std::optional<int> Nodes::keeper(int rank) const {
  if (count() == 1) return std::nullopt;
  const std::vector<int>& next = ranks((of(rank) + 1) % count());
  return next[place(rank) % next.size()];
}

std::vector<int> Nodes::kept_by(int rank) const {
  std::vector<int> sources;
  for (int other = 0; other < static_cast<int>(of_rank_.size()); ++other) {
    if (keeper(other) == rank) sources.push_back(other);
  }
  return sources;
}

}  // namespace trireme::checkpoint
