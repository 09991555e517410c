#pragma once
#include "trainer/config/loaded_config.h"

namespace trireme {

// The config for `ranks` ranks: open data-parallel degrees are set to what the other axes leave,
// and a derived global batch to one micro-batch per data-parallel rank. If the axes do not divide
// the ranks, the degrees stay open (Mesh reports it). Throws ConfigError if a rule is violated.
LoadedConfig for_ranks(const LoadedConfig& loaded, std::int64_t ranks);

}  // namespace trireme
