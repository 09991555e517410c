#pragma once
#include <string_view>

namespace trireme {

// Contents of failures.json.
extern const std::string_view kFailuresJson;

}  // namespace trireme
