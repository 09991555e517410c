#pragma once
#include <string>

#include "trainer/config/loaded_config.h"

namespace trireme {

// All applicable keys with their values and, in comments, their origins. Paths are absolute, so
// that the text reads back to the same config from any folder.
std::string effective_toml(const LoadedConfig& loaded);

}  // namespace trireme
