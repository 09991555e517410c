#pragma once
#include <string>

#include "trainer/report/run_data.h"

namespace trireme {

// The whole page: one HTML file that needs nothing else.
std::string report_page(const RunData& run);

}  // namespace trireme
