#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/neighbours.h"

namespace trireme::checkpoint {

// The ranks that write and read a run's checkpoints together; rank 0 leads: it alone
// touches what there is one of (lease, manifest, names). All ranks make the same calls
// in the same order. What fails on one fails on all, with the same words.
class Team {
 public:
  Team();  // of one
  // `ranks` outlives the team, and so does `world`, which they are all of, in its order: then
  // those on one host read together.
  explicit Team(Communicator& ranks, World* world = nullptr) : ranks_(&ranks), world_(world) {}

  int rank() const { return ranks_->rank(); }
  int size() const { return ranks_->size(); }
  bool leads() const { return rank() == 0; }

  using Work = std::function<std::string()>;
  // Runs `work` everywhere; returns the texts by rank. When it throws an Error anywhere,
  // throws that of the lowest rank everywhere, naming the rank.
  std::vector<std::string> together(const Work& work) const;
  // The ranks of this one's host, each with `bytes` that all of them map; null where it is alone
  // on its host, or they cannot.
  std::unique_ptr<Neighbours> neighbours(std::size_t bytes) const;
  // Runs `work` on the leader; everyone gets its text, or its Error.
  std::string led(const Work& work) const;

 private:
  std::vector<std::string> gather(const std::string& text) const;
  Communicator* ranks_;
  World* world_ = nullptr;
};

}  // namespace trireme::checkpoint
