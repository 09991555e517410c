#pragma once
#include <string>

#include "trainer/tools/report/run_data.h"

namespace trireme {

// Parts of the page as HTML; empty when the run has nothing for them.
std::string complaints_html(const RunData& run);
std::string tiles_html(const RunData& run);
std::string samples_html(const RunData& run);
std::string audit_html(const RunData& run);
std::string events_html(const RunData& run);
std::string checkpoints_html(const RunData& run);
std::string config_html(const RunData& run);

}  // namespace trireme
