#pragma once
#include <functional>

#include "model/base/error.h"
#include "parallel/comm/world.h"
#include "trainer/supervise/watchdog/watch.h"

namespace trireme {

// Runs `part` on this rank under the watchdog and finalizes the world. An error on all ranks
// (Error::on_all_ranks) is printed by rank 0, and each rank returns its exit code. After an error
// of this rank alone, or a lost or hung rank, the watchdog ends all processes and this function
// does not return (Watch). In a world of size 1 there is no watchdog and errors are thrown to the
// caller.
ExitCode run_rank(World& world, const WatchOptions& options, const std::function<ExitCode()>& part);

}  // namespace trireme
