#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/memory/memory_store.h"
#include "parallel/comm/world.h"
#include "trainer/config/run_config.h"
#include "trainer/loop/run_log.h"

namespace trireme {

// A run's snapshots in memory: when they are taken, and what the run tells of them. What a
// killed run has left is read even where none are taken any more. A tier that fails costs
// the run its snapshots, not more. All ranks make all calls.
class MemoryTier {
 public:
  // All outlive the tier.
  MemoryTier(const RunConfig& config, const World& world, Communicator& ranks,
             checkpoint::Store& disk, RunLog& log);

  // The newest state there is, in memory or on disk, as Store::load_newest.
  std::optional<checkpoint::Loaded> load_newest(std::span<const checkpoint::Piece> wanted);
  // The run goes on from another state than the newest.
  void forget();

  // Takes the memory, if any is wanted, for snapshots of `pieces` (MemoryStore::prepare);
  // the run stands at `step`.
  void start(std::span<const checkpoint::Piece> pieces, std::int64_t step);
  // Whether a snapshot is to be taken after `step`.
  bool due(std::int64_t step) const;
  // Whether a snapshot may be read when the node that writes the logs is gone.
  bool outlives_a_node() const { return store_.nodes().count() > 1; }
  // Stores what `take` returns, whose pieces are those of start().
  void save(const std::function<checkpoint::Snapshot()>& take);
  // The run ends with all it has on disk, after `step`.
  void end(std::int64_t step);

 private:
  std::optional<checkpoint::Loaded> from_memory(std::span<const checkpoint::Piece> wanted,
                                                std::optional<checkpoint::Lineage> newer_than);

  const ElasticConfig& config_;
  checkpoint::Store& disk_;
  RunLog& log_;
  checkpoint::MemoryStore store_;
  std::vector<std::string> rejected_;  // to be told once the log is open
  bool saves_ = false;
  std::int64_t saved_ = 0;
  double seconds_ = 0;  // of all of them
  double longest_ = 0;
};

}  // namespace trireme
