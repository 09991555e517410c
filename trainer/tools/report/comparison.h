#pragma once
#include <string>
#include <vector>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// Unique names of the runs: folder names, with as much of the path as needed.
std::vector<std::string> run_names(const std::vector<RunData>& runs);

// HTML tables of the metrics of several runs and of the config keys that differ.
std::string comparison_html(const std::vector<RunData>& runs);

}  // namespace trireme
