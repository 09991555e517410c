#pragma once
#include <string>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// HTML sections of the page; empty if the run has no such data.
std::string complaints_html(const RunData& run);
std::string tiles_html(const RunData& run);
std::string samples_html(const RunData& run);
std::string audit_html(const RunData& run);
std::string events_html(const RunData& run);
std::string checkpoints_html(const RunData& run);
std::string config_html(const RunData& run);

// HTML table of planned memory by class on rank 0 and of used memory; empty if the events contain
// no plan.
std::string memory_html(const RunData& run);

// Heat map of the load of experts in the last step that has it; empty without.
std::string experts_html(const RunData& run);

}  // namespace trireme
