#pragma once
#include <string>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// HTML table of planned memory by class on rank 0 and of used memory; empty if the events contain
// no plan.
std::string memory_html(const RunData& run);

}  // namespace trireme
