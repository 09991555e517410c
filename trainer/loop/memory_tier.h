#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/memory/memory_store.h"
#include "checkpoint/store/saver.h"
#include "parallel/comm/world.h"
#include "trainer/config/run_config.h"
#include "trainer/loop/run_log.h"

namespace trireme {

// elastic.memory_interval: a run's snapshots in memory, on its own node and the next. Snapshots
// left by a killed run are read even if this one takes none. A failure costs the snapshots, not the
// run. All methods are collective.
class MemoryTier {
 public:
  // All outlive the tier.
  MemoryTier(const RunConfig& config, const World& world, Communicator& ranks,
             checkpoint::Store& disk, RunLog& log);

  // Loads the newest state, in memory or on disk, like Store::load_newest.
  std::optional<checkpoint::Loaded> load_newest(std::span<const checkpoint::Piece> wanted);
  // The run resumes from another state than the newest.
  void forget();

  // Allocates memory for snapshots of `pieces` (MemoryStore::prepare) if configured, for a run at
  // `step`.
  void start(std::span<const checkpoint::Piece> pieces, std::int64_t step);
  // Whether a snapshot is due after `step`.
  bool due(std::int64_t step) const;
  // Whether a snapshot may be read after the node that writes the logs is lost.
  bool outlives_a_node() const { return store_.nodes().count() > 1; }
  // Stores the snapshot that `take` returns, with the pieces of start().
  void save(const std::function<checkpoint::Snapshot()>& take);
  // The run ends after `step`, with everything on disk.
  void end(std::int64_t step);

 private:
  std::optional<checkpoint::Loaded> from_memory(std::span<const checkpoint::Piece> wanted,
                                                std::optional<checkpoint::Lineage> newer_than);

  const ElasticConfig& config_;
  checkpoint::Store& disk_;
  RunLog& log_;
  checkpoint::MemoryStore store_;
  std::vector<std::string> rejected_;  // logged once the log is open
  bool saves_ = false;
  std::int64_t saved_ = 0;
  double seconds_ = 0;  // of all snapshots
  double longest_ = 0;
};

}  // namespace trireme
