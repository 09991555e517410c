#pragma once
#include <string_view>

namespace trireme {

// Contents of the files in trainer/tools/plan/page/.
extern const std::string_view kPlanHtml;
extern const std::string_view kPlanStyle;

}  // namespace trireme
