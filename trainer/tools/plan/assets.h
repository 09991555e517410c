#pragma once
#include <string_view>

namespace trireme {

// The files of trainer/tools/plan/page/, built into the program.
extern const std::string_view kPlanHtml;
extern const std::string_view kPlanStyle;

}  // namespace trireme
