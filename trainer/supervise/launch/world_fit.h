#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/config/loaded_config.h"
#include "trainer/config/override.h"

namespace trireme {

// A number of ranks, and the config overrides that make the run use them.
struct WorldFit {
  int ranks = 0;
  std::vector<Override> overrides;
};

// The largest layout with at most `available` ranks for a run configured for `wanted` ranks: tensor
// and pipeline degrees and the global batch size stay, the number of data-parallel ranks shrinks,
// and with it, if it must, the number of expert-parallel ranks.
// Nothing if no layout with at least `least` data-parallel ranks is valid. Throws ConfigError if
// the layout for `wanted` ranks is invalid.
std::optional<WorldFit> fit_world(const LoadedConfig& loaded, int wanted, int available,
                                  std::int64_t least);

}  // namespace trireme
