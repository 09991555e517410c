#include "parallel/comm/team.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

#include "model/base/error.h"
#include "model/base/outcome.h"
#include "model/tensor/host_tensor.h"
#include "parallel/comm/self_communicator.h"

namespace trireme {
namespace {

// All ranks throw the same error.
std::string result_on_all(const std::string& outcome, const std::string& who) {
  try {
    return result_of(outcome, who);
  } catch (Error& error) {
    error.set_on_all_ranks();
    throw;
  }
}

}  // namespace

Team::Team() {
  static SelfCommunicator alone;
  ranks_ = &alone;
}

std::vector<std::string> Team::gather(const std::string& text) const {
  Stream stream;
  const auto ranks = static_cast<std::size_t>(size());
  const auto mine = static_cast<std::size_t>(rank());
  const auto exchange = [&](std::vector<std::int32_t>& all) {
    const Tensor whole = host_tensor(std::span(all));
    const auto share = static_cast<std::int64_t>(all.size() / ranks);
    ranks_->all_gather(stream, whole, whole.slice(static_cast<std::int64_t>(mine) * share, share));
    stream.synchronize();
  };
  std::vector<std::int32_t> lengths(ranks);
  lengths[mine] = static_cast<std::int32_t>(text.size());
  exchange(lengths);
  const auto longest = static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
  const std::size_t words = longest / 4 + 1;
  std::vector<std::int32_t> all(words * ranks);
  std::memcpy(all.data() + mine * words, text.data(), text.size());
  exchange(all);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < ranks; ++i) {
    texts.emplace_back(reinterpret_cast<const char*>(all.data() + i * words),
                       static_cast<std::size_t>(lengths[i]));
  }
  return texts;
}

std::vector<std::string> Team::results_of_all(const TextWork& work) const {
  if (size() == 1) return {work()};
  const std::vector<std::string> outcomes = gather(outcome_of(work));
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    texts.push_back(result_on_all(outcomes[rank], say("rank ", rank, ": ")));
  }
  return texts;
}

std::string Team::result_of_leader(const TextWork& work) const {
  if (size() == 1) return work();
  return result_on_all(gather(leads() ? outcome_of(work) : std::string()).front(), "");
}

std::unique_ptr<HostPeers> Team::host_peers(std::size_t bytes) const {
  return world_ ? host_peers_of(*world_, bytes) : nullptr;
}

}  // namespace trireme
