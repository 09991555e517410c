#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/host_peers.h"

namespace trireme {

// Ranks that exchange text and fail together; rank 0 is the leader, which alone handles shared
// objects (lease, manifest, names). All calls are collective and in the same order. An error on one
// rank is thrown on all, with the same message.
class Team {
 public:
  Team();  // a team of one
  // `ranks` outlives the team, and so does `world`, whose ranks they are, in order: with it the
  // ranks of a host read together.
  explicit Team(Communicator& ranks, World* world = nullptr) : ranks_(&ranks), world_(world) {}

  int rank() const { return ranks_->rank(); }
  int size() const { return ranks_->size(); }
  bool leads() const { return rank() == 0; }

  // Runs `work` on all ranks; returns its results, texts, by rank. If it throws an Error on any
  // rank, all ranks throw that of the lowest one, naming the rank.
  template <class Work>
  auto together(const Work& work) const {
    return run(work, [this](const TextWork& text) { return results_of_all(text); });
  }
  // Runs `work` on the leader; all ranks get its result, a text, or its Error.
  template <class Work>
  auto led(const Work& work) const {
    return run(work, [this](const TextWork& text) { return result_of_leader(text); });
  }
  // The ranks of this host with `bytes` of shared memory each; null if this rank is alone on its
  // host or memory cannot be shared.
  std::unique_ptr<HostPeers> host_peers(std::size_t bytes) const;

 private:
  using TextWork = std::function<std::string()>;
  template <class Work, class Collective>
  static auto run(const Work& work, const Collective& collective) {
    if constexpr (std::is_void_v<std::invoke_result_t<const Work&>>) {
      collective([&] {
        work();
        return std::string();
      });
    } else {
      return collective(work);
    }
  }
  std::vector<std::string> results_of_all(const TextWork& work) const;
  std::string result_of_leader(const TextWork& work) const;
  std::vector<std::string> gather(const std::string& text) const;

  Communicator* ranks_;
  World* world_ = nullptr;
};

}  // namespace trireme
