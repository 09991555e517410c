#pragma once
#include <cstdint>
#include <string>

#include "trainer/config/run_config.h"

namespace trireme {

// What becomes of data.train and data.stages in a run that goes on.
struct StageChange {
  // data.stages has changed, but not for what was trained on, and checkpoint.allow_changes has it.
  bool allowed = false;
  // Where something may change that is not allowed, how to: a paragraph; else empty.
  std::string advice;
};

// For a run that has come to `position` in its training order.
StageChange stage_change(const RunConfig& before, const RunConfig& after, std::uint64_t position);

}  // namespace trireme
