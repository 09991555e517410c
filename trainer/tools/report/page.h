#pragma once
#include <string>
#include <vector>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// The whole page of a run, or of several side by side: one HTML file that needs nothing else.
std::string report_page(const std::vector<RunData>& runs);

}  // namespace trireme
