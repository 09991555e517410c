#pragma once
#include <cstdint>
#include <filesystem>

#include "trainer/supervise/watchdog/verdict.h"

namespace trireme {

// Progress of all ranks of a run together, from the recordings in RUN_DIR/flight-recorder.
struct WorldProgress {
  std::uint64_t ticks = 0;  // changes whenever a rank makes progress
  double limit_s = 0;       // seconds: the longest stall limit of any rank
};
WorldProgress world_progress(const std::filesystem::path& run_dir, const StallLimits& limits);

// Whether every rank is a local process that is stopped (SIGSTOP).
bool all_ranks_stopped(const std::filesystem::path& run_dir);

}  // namespace trireme
