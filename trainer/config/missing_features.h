#pragma once
#include <string>
#include <string_view>

namespace trireme {

// Reason why a key of another trainer has no counterpart, if it belongs to a known feature that is
// not implemented: "mixture of experts is not implemented yet"; otherwise "". Dashes equal
// underscores; only the last part of a path is compared.
std::string missing_feature(std::string_view key);

}  // namespace trireme
