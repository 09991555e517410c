#pragma once
#include <functional>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"

namespace trireme::checkpoint {

// The ranks that write and read a run's checkpoints together; rank 0 leads: it alone
// touches what there is one of (lease, manifest, names). All ranks make the same calls
// in the same order. What fails on one fails on all, with the same words.
class Team {
 public:
  Team();  // of one
  // `ranks` outlives the team.
  explicit Team(Communicator& ranks) : ranks_(&ranks) {}

  int rank() const { return ranks_->rank(); }
  int size() const { return ranks_->size(); }
  bool leads() const { return rank() == 0; }

  using Work = std::function<std::string()>;
  // Runs `work` everywhere; returns the texts by rank. When it throws an Error anywhere,
  // throws that of the lowest rank everywhere, naming the rank.
  std::vector<std::string> together(const Work& work) const;
  // Runs `work` on the leader; everyone gets its text, or its Error.
  std::string led(const Work& work) const;

 private:
  std::vector<std::string> gather(const std::string& text) const;
  Communicator* ranks_;
};

}  // namespace trireme::checkpoint
