#pragma once
#include <string>

#include "checkpoint/team.h"
#include "parallel/comm/world.h"
#include "trainer/config/run_config.h"

namespace trireme {

// data.verify: one rank of each node compares all bytes of the config's token files with the hashes
// beside them. All ranks; throws DataError on all. Returns what to tell, a line.
std::string verify_data(const RunConfig& config, const checkpoint::Team& team, const World& world);

}  // namespace trireme
