#include "trainer/supervise/launch/restart_policy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "model/base/error.h"
#include "trainer/config/for_ranks.h"

namespace trireme {
namespace {

constexpr double kWaitFactor = 6;

bool is_permanent(int code) {
  return code == static_cast<int>(ExitCode::kUsage) ||
         code == static_cast<int>(ExitCode::kDiverged);
}

// Caused by one host or file system: once steps were made, another host may work.
bool may_be_transient(int code) {
  return code == static_cast<int>(ExitCode::kData) ||
         code == static_cast<int>(ExitCode::kCheckpoint) ||
         code == static_cast<int>(ExitCode::kEnvironment);
}

constexpr const char* kBatch = "training.global_batch_size";
constexpr const char* kShard = "parallelism.data_shard";
constexpr const char* kReplicate = "parallelism.data_replicate";

Override number(const char* key, std::int64_t value) {
  return {key, std::to_string(value)};
}

// Marks a key as given, so that for_ranks() does not derive it.
void give(LoadedConfig& loaded, const char* key) {
  loaded.origins[key] = {Origin::Kind::kCommandLine, 0, 0};
}

// Candidate {data_replicate, data_shard} for `data` data-parallel ranks: the configured replicas
// first, then a single shard group.
std::vector<std::array<std::int64_t, 2>> degrees(const ParallelismConfig& whole,
                                                 std::int64_t data) {
  std::vector<std::array<std::int64_t, 2>> tries;
  const std::int64_t replicate = std::max<std::int64_t>(whole.data_replicate, 1);
  if (whole.data_shard <= 1 && data > 1) tries.push_back({data, 1});
  if (data % replicate == 0) tries.push_back({replicate, data / replicate});
  tries.push_back({1, data});
  return tries;
}

}  // namespace

RestartDecision RestartPolicy::after(const IncarnationEnd& end) {
  const bool has_progress = end.step > newest_;
  if (has_progress) newest_ = end.step;
  const auto stop = [](int code, std::string why) {
    return RestartDecision{.exit_code = code, .why = std::move(why)};
  };
  if (end.exit_code == 0) return stop(0, "done");
  if (end.exit_code == static_cast<int>(ExitCode::kStopped)) {
    if (end.was_asked) return {.restarts = true, .why = "resized: the number of ranks changes"};
    return stop(end.exit_code, "stopped on a signal");
  }
  const bool may_recover = has_progress || end.excludes_host;
  if (is_permanent(end.exit_code) || (may_be_transient(end.exit_code) && !may_recover)) {
    return stop(end.exit_code, "a restart cannot fix this error");
  }
  without_progress_ = may_recover ? 0 : without_progress_ + 1;
  if (without_progress_ >= kMaxWithoutProgress) {
    return stop(static_cast<int>(ExitCode::kNoProgress),
                say(without_progress_, " starts in a row made no step after step ", newest_));
  }
  if (restarts_ >= max_restarts_) {
    return stop(static_cast<int>(ExitCode::kPeer),
                say("elastic.max_restarts = ", max_restarts_, " restarts exhausted"));
  }
  ++restarts_;
  const double wait =
      without_progress_ == 0 ? 0 : wait_s_ * std::pow(kWaitFactor, without_progress_ - 1);
  return {.restarts = true,
          .wait_s = wait,
          .why = end.excludes_host ? "restart without an excluded host"
                 : has_progress    ? "restart after a failure"
                                   : "restart after a failure without a new step"};
}

std::optional<WorldFit> fit_world(const LoadedConfig& loaded, int wanted, int available,
                                  std::int64_t least) {
  LoadedConfig whole = for_ranks(loaded, wanted);
  ParallelismConfig& layout = whole.config.parallelism;
  if (world_size(layout) != wanted) {
    throw ConfigError(say("[parallelism] in ", loaded.source, " needs ", world_size(layout),
                          " ranks, but -n is ", wanted));
  }
  WorldFit fit{.ranks = wanted, .overrides = {}};
  if (loaded.origin(kBatch).kind == Origin::Kind::kDerived) {
    fit.overrides.push_back(number(kBatch, whole.config.training.global_batch_size));
  }
  if (available >= wanted) return fit;
  give(whole, kBatch);
  give(whole, kShard);
  give(whole, kReplicate);
  const ParallelismConfig asked = layout;
  const std::int64_t replica = world_size(asked) / data_ranks(asked);
  for (std::int64_t data = available / replica; data >= std::max<std::int64_t>(least, 1); --data) {
    for (const auto& [replicate, shard] : degrees(asked, data)) {
      layout.data_replicate = replicate;
      layout.data_shard = shard;
      try {
        for_ranks(whole, data * replica);
      } catch (const ConfigError&) {
        continue;
      }
      fit.ranks = static_cast<int>(data * replica);
      fit.overrides.push_back(number(kReplicate, replicate));
      fit.overrides.push_back(number(kShard, shard));
      return fit;
    }
  }
  return std::nullopt;
}

}  // namespace trireme
