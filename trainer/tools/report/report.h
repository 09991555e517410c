#pragma once
#include <string>
#include <vector>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// Self-contained HTML page of one run, or of several for comparison.
std::string report_page(const std::vector<RunData>& runs);

// Plain-text report: summary, sparklines, wall time, failures, newest events, and the config values
// set by the user, or for several runs the config differences.
std::string report_text(const std::vector<RunData>& runs);

}  // namespace trireme
