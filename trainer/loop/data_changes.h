#pragma once
#include <cstdint>
#include <string>

#include "trainer/config/run_config.h"

namespace trireme {

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
