#pragma once
#include <string>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// The first rank's memory by class as planned, beside what was used, as HTML; empty where the
// events do not tell the plan.
std::string memory_html(const RunData& run);

}  // namespace trireme
