#pragma once
#include <functional>

#include "model/base/error.h"
#include "parallel/comm/world.h"

namespace trireme {

// Runs one rank's part of a run. A failure that all ranks share is told by the first
// and ends each in order; one of this rank alone is told with its rank and host, and
// ends the world, since the others may wait for it. Alone in the world, everything is
// thrown on.
ExitCode run_rank(World& world, const std::function<ExitCode()>& part);

}  // namespace trireme
