#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/host_peers.h"

namespace trireme::checkpoint {

// The ranks that write and read a run's checkpoints; rank 0 is the leader, which alone handles
// shared objects (lease, manifest, names). All calls are collective and in the same order. An error
// on one rank is thrown on all, with the same message.
class Team {
 public:
  Team();  // a team of one
  // `ranks` outlives the team, and so does `world`, whose ranks they are, in order: with it the
  // ranks of a host read together.
  explicit Team(Communicator& ranks, World* world = nullptr) : ranks_(&ranks), world_(world) {}

  int rank() const { return ranks_->rank(); }
  int size() const { return ranks_->size(); }
  bool leads() const { return rank() == 0; }

  using Work = std::function<std::string()>;
  // Runs `work` on all ranks; returns the results by rank. If it throws an Error on any rank, all
  // ranks throw that of the lowest one, naming the rank.
  std::vector<std::string> together(const Work& work) const;
  // The ranks of this host with `bytes` of shared memory each; null if this rank is alone on its
  // host or memory cannot be shared.
  std::unique_ptr<HostPeers> host_peers(std::size_t bytes) const;
  // Runs `work` on the leader; all ranks get its result or its Error.
  std::string led(const Work& work) const;

 private:
  std::vector<std::string> gather(const std::string& text) const;
  Communicator* ranks_;
  World* world_ = nullptr;
};

}  // namespace trireme::checkpoint
