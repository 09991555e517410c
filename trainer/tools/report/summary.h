#pragma once
#include <string>
#include <vector>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// A summary number.
struct Tile {
  std::string value;
  std::string label;
};

// Summary of the run; numbers that were not recorded are omitted.
std::vector<Tile> summary_tiles(const RunData& run);

// State of the run from its events: "finished", "stopped: signal", "failed", ...
struct RunState {
  std::string text;
  enum class Kind { kGood, kBad, kOpen } kind = Kind::kOpen;
};
RunState run_state(const RunData& run);

// Validation curve from the metrics, otherwise from the events.
Series validation_curve(const RunData& run, const std::string& metric, const std::string& detail);

}  // namespace trireme
