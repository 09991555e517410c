#pragma once
#include <string>
#include <vector>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// How the runs are called side by side: the names of their folders, with so much of the path
// that they differ.
std::vector<std::string> run_names(const std::vector<RunData>& runs);

// Several runs side by side, as HTML: their numbers, and what differs in their configs.
std::string comparison_html(const std::vector<RunData>& runs);

}  // namespace trireme
