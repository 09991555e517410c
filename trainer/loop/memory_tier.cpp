#include "trainer/loop/memory_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "model/base/human.h"
#include "trainer/engine/memory_plan.h"
#include "trainer/loop/train_state.h"
#include "trainer/telemetry/clock.h"

namespace trireme {

MemoryTier::MemoryTier(const RunConfig& config, const World& world, Communicator& ranks,
                       checkpoint::Store& disk, RunLog& log)
    : config_(config.elastic),
      disk_(disk),
      log_(log),
      store_(config.elastic.memory_folder, disk.run(), checkpoint::Nodes::by_host(world.hosts()),
             ranks) {}

std::optional<checkpoint::Loaded> MemoryTier::load_newest(
    std::span<const checkpoint::Piece> wanted) {
  if (auto found = from_memory(wanted, disk_.newest())) return found;
  std::optional<checkpoint::Loaded> loaded;
  try {
    loaded = disk_.load_newest(wanted, kMatchOfState);
  } catch (const MismatchError&) {
    throw;
  } catch (const CheckpointError& error) {
    auto found = from_memory(wanted, std::nullopt);
    if (!found) throw;
    found->rejected.emplace_back(error.what());
    return found;
  }
  // The newest checkpoint was damaged; a snapshot may be newer than the one loaded instead.
  if (loaded && !loaded->rejected.empty()) {
    const std::size_t refused = rejected_.size();
    if (auto found = from_memory(wanted, loaded->manifest.lineage())) {
      found->rejected = loaded->rejected;
      return found;
    }
    if (rejected_.size() > refused)
      disk_.load_step(loaded->step, wanted, kMatchOfState);  // partly overwritten
  }
  forget();
  return loaded;
}

std::optional<checkpoint::Loaded> MemoryTier::from_memory(
    std::span<const checkpoint::Piece> wanted, std::optional<checkpoint::Lineage> newer_than) {
  try {
    auto found = store_.load_newest(wanted, newer_than, rejected_, kMatchOfState);
    if (found) disk_.go_on_from(found->manifest);
    return found;
  } catch (const EnvironmentError& error) {
    rejected_.emplace_back(error.what());
    return std::nullopt;
  }
}

void MemoryTier::forget() {
  try {
    store_.forget();
  } catch (const EnvironmentError& error) {
    rejected_.emplace_back(error.what());
  }
}

void MemoryTier::start(std::span<const checkpoint::Piece> pieces, std::int64_t step) {
  for (const std::string& why : std::set<std::string>(rejected_.begin(), rejected_.end())) {
    log_.note("snapshot in memory rejected: " + why);
    log_.event("snapshot_rejected", step, {{"why", why}});
  }
  rejected_.clear();
  if (config_.memory_interval == 0) return;
  try {
    store_.prepare(pieces, available_memory(Device{}, 1));
  } catch (const EnvironmentError& error) {
    return log_.warn(step, say("no snapshots in memory: ", error.what()));
  }
  saves_ = true;
  const int nodes = store_.nodes().count();
  log_.note(fmt::format(
      "snapshots every {} in {}: {} for two{}",
      config_.memory_interval == 1 ? std::string("step")
                                   : fmt::format("{} steps", config_.memory_interval),
      store_.folder().path().string(), human_bytes(store_.bytes_here()),
      nodes > 1 ? fmt::format(", on each of {} nodes, with a copy on the next node", nodes)
                : std::string("; no copy on another node: there is only one node")));
  for (const auto& path : store_.removed()) {
    log_.note(fmt::format("removed {}: left by a run more than a day ago", path.string()));
  }
}

bool MemoryTier::due(std::int64_t step) const {
  return saves_ && step % config_.memory_interval == 0;
}

void MemoryTier::save(const std::function<checkpoint::Snapshot()>& take) {
  const double begin = seconds_now();
  const checkpoint::Snapshot snapshot = take();
  const std::int64_t step = snapshot.manifest.step;
  try {
    store_.save(disk_.stamped(snapshot.manifest), snapshot.add_digests);
  } catch (const EnvironmentError& error) {
    return log_.warn(step, fmt::format("no snapshot of step {} in memory: {}", step, error.what()));
  }
  const double took = seconds_now() - begin;
  ++saved_;
  seconds_ += took;
  longest_ = std::max(longest_, took);
}

void MemoryTier::end(std::int64_t step) {
  if (saved_ > 0) {
    log_.event("memory_snapshots", step,
               {{"count", saved_},
                {"mean_seconds", seconds_ / static_cast<double>(saved_)},
                {"longest_seconds", longest_},
                {"bytes", store_.bytes_here()}});
  }
  try {
    store_.remove();
  } catch (const EnvironmentError& error) {
    log_.warn(step, error.what());
  }
}

}  // namespace trireme
