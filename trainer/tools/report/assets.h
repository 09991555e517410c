#pragma once
#include <string_view>

namespace trireme {

// Contents of the files in trainer/tools/report/page/.
extern const std::string_view kPageHtml;
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;
extern const std::string_view kTimelineScript;

}  // namespace trireme
