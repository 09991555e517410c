#pragma once
#include <string>

#include "parallel/comm/team.h"
#include "parallel/comm/world.h"
#include "trainer/config/run_config.h"

namespace trireme {

// data.verify: one rank of each node compares the config's token files with their recorded hashes.
// Collective; throws DataError on all ranks. Returns a line for the log.
std::string verify_data(const RunConfig& config, const Team& team, const World& world);

// Throws ConfigError if data.tokenizer names a missing file, and DataError if it is not the one
// that made the token files. Files without a sidecar do not say what made them.
void check_tokenizer(const RunConfig& config);

}  // namespace trireme
