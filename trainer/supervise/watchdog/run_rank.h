#pragma once
#include <functional>

#include "model/base/error.h"
#include "parallel/comm/world.h"
#include "trainer/supervise/watchdog/watch.h"

namespace trireme {

// Runs one rank's part of a run, under the eyes of the others where there are any, and
// leaves the world with them. A failure that all ranks share is told by the first and ends
// each in order; after one of this rank alone, or of a rank that is lost or hangs, all end
// at once: this does not return then (Watch). Alone in the world nobody watches and
// everything is thrown on.
ExitCode run_rank(World& world, const WatchOptions& options, const std::function<ExitCode()>& part);

}  // namespace trireme
