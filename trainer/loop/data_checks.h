#pragma once
#include <cstdint>
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

// How data.train and data.stages of a resumed run may have changed.
struct StageChange {
  // data.stages has changed after what was trained on, and checkpoint.allow_changes lists it.
  bool allowed = false;
  // How to make a change that is not allowed: a paragraph; else empty.
  std::string advice;
};

// For a run that has reached `position` in its training order.
StageChange stage_change(const RunConfig& before, const RunConfig& after, std::uint64_t position);

// `before` with the folders of `now` for token files of the same names. Only the fingerprint shows
// whether they hold the same tokens.
RunConfig with_moved_data(RunConfig before, const RunConfig& now);

}  // namespace trireme
