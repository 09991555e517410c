#pragma once
#include <string_view>

namespace trireme {

// Contents of the files in page/.
extern const std::string_view kPlanHtml;
extern const std::string_view kPlanStyle;

}  // namespace trireme
