#pragma once
#include <string>
#include <vector>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// The runs for a terminal: numbers, curves of block characters, where the time went, failures, the
// newest events, and what in the config was chosen, or of several runs differs.
std::string report_text(const std::vector<RunData>& runs);

}  // namespace trireme
