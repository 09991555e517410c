#pragma once
#include "trainer/config/loaded_config.h"

namespace trireme {

// The config as `ranks` run it: data degrees that were left open are what the other axes
// leave, and a global batch that was derived is one micro-batch for each data rank. Where
// the axes do not divide the ranks they stay open (Mesh says so). Throws ConfigError when
// the rules do not hold for so many ranks.
LoadedConfig for_ranks(const LoadedConfig& loaded, std::int64_t ranks);

}  // namespace trireme
