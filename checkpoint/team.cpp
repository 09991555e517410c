#include "checkpoint/team.h"

#include <algorithm>
#include <cstring>

#include "checkpoint/catalogue.h"
#include "model/base/error.h"
#include "model/base/json.h"
#include "model/tensor/host_tensor.h"
#include "parallel/comm/self_communicator.h"

namespace trireme::checkpoint {
namespace {

using nlohmann::json;

std::string rank_outcome(const Team::Work& work) {
  try {
    return json_text(json{{"text", work()}});
  } catch (const MismatchError& error) {
    return json_text(json{{"mismatch", error.what()}});
  } catch (const Error& error) {
    return json_text(json{{"error", error.what()}, {"code", static_cast<int>(error.code())}});
  } catch (const std::exception& error) {
    return json_text(
        json{{"error", error.what()}, {"code", static_cast<int>(ExitCode::kInternal)}});
  }
}

// The result of one rank's outcome; throws if it is an error.
std::string result_of(const std::string& outcome, const std::string& who) {
  const json object = json::parse(outcome);
  if (object.contains("text")) return object["text"];
  if (object.contains("mismatch")) {
    throw on_all_ranks(MismatchError(who + object["mismatch"].get<std::string>()));
  }
  const std::string what = who + object["error"].get<std::string>();
  switch (static_cast<ExitCode>(object["code"].get<int>())) {
    case ExitCode::kCheckpoint:
      throw on_all_ranks(CheckpointError(what));
    case ExitCode::kEnvironment:
      throw on_all_ranks(EnvironmentError(what));
    default:
      throw on_all_ranks(Error(what, static_cast<ExitCode>(object["code"].get<int>())));
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

std::vector<std::string> Team::together(const Work& work) const {
  if (size() == 1) return {work()};
  const std::vector<std::string> outcomes = gather(rank_outcome(work));
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    texts.push_back(result_of(outcomes[rank], say("rank ", rank, ": ")));
  }
  return texts;
}

std::string Team::led(const Work& work) const {
  if (size() == 1) return work();
  return result_of(gather(leads() ? rank_outcome(work) : std::string()).front(), "");
}

std::unique_ptr<HostPeers> Team::host_peers(std::size_t bytes) const {
  return world_ ? host_peers_of(*world_, bytes) : nullptr;
}

}  // namespace trireme::checkpoint
