#include "trainer/supervise/launch/world_fit.h"

#include <algorithm>
#include <array>
#include <string>

#include "model/base/error.h"
#include "trainer/config/for_ranks.h"

namespace trireme {
namespace {

constexpr const char* kBatch = "training.global_batch_size";
constexpr const char* kShard = "parallelism.data_shard";
constexpr const char* kReplicate = "parallelism.data_replicate";
constexpr const char* kExpert = "parallelism.expert";

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

// Candidates for the expert parallel degree: as configured, then fewer ranks with more experts
// each.
std::vector<std::int64_t> expert_degrees(std::int64_t asked) {
  std::vector<std::int64_t> tries;
  for (std::int64_t degree = asked; degree >= 1; --degree) {
    if (asked % degree == 0) tries.push_back(degree);
  }
  return tries;
}

bool is_possible(const LoadedConfig& loaded, std::int64_t ranks) {
  try {
    for_ranks(loaded, ranks);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

}  // namespace

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
      for (const std::int64_t expert : expert_degrees(asked.expert)) {
        layout.expert = expert;
        if (!is_possible(whole, data * replica)) continue;
        fit.ranks = static_cast<int>(data * replica);
        fit.overrides.push_back(number(kReplicate, replicate));
        fit.overrides.push_back(number(kShard, shard));
        if (expert != asked.expert) fit.overrides.push_back(number(kExpert, expert));
        return fit;
      }
    }
  }
  return std::nullopt;
}

}  // namespace trireme
