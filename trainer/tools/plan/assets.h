#pragma once
#include <string_view>

namespace trireme {

// Contents of the files in trainer/tools/plan/page/, and of failures.json.
extern const std::string_view kPlanHtml;
extern const std::string_view kPlanStyle;
extern const std::string_view kFailuresJson;

}  // namespace trireme
