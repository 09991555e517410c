#pragma once
#include <string>
#include <string_view>

namespace trireme {

// Why a key of another trainer's has no counterpart here, where it asks for a known feature that
// is not built: "mixture of experts is not implemented yet". Empty where it asks for none. Dashes
// and underscores are alike; of a path only the last part counts.
std::string missing_feature(std::string_view key);

}  // namespace trireme
