#pragma once
#include <string_view>

namespace trireme {

// The files of trainer/tools/report/page/, built into the program.
extern const std::string_view kPageHtml;
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;
extern const std::string_view kTimelineScript;

}  // namespace trireme
