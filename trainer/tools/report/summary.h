#pragma once
#include <string>
#include <vector>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// One number worth a look first.
struct Tile {
  std::string value;
  std::string label;
};

// The run in a dozen numbers; what the run did not record has no tile.
std::vector<Tile> summary_tiles(const RunData& run);

// How the run stands, from its events: "finished", "stopped: signal", "failed", ...
struct RunState {
  std::string text;
  enum class Kind { kGood, kBad, kOpen } kind = Kind::kOpen;
};
RunState run_state(const RunData& run);

// The validation curve: from the metrics, or from the events where they have none.
Series validation_curve(const RunData& run, const std::string& metric, const std::string& detail);

}  // namespace trireme
