#pragma once
#include <cstdint>
#include <filesystem>

#include "trainer/supervise/watchdog/verdict.h"

namespace trireme {

// What the ledgers of a run's ranks, in RUN_DIR/flight-recorder, show together.
struct Movement {
  std::uint64_t ticks = 0;  // grows as long as one of them moves
  double limit_s = 0;       // for which the most patient of them may stand still
};
Movement movement_of_all(const std::filesystem::path& run_dir, const StallLimits& limits);

// Whether every rank is a process of this machine that somebody has stopped (SIGSTOP).
bool all_are_stopped(const std::filesystem::path& run_dir);

}  // namespace trireme
