#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "trainer/config/loaded_config.h"
#include "trainer/config/override.h"

namespace trireme {

// A run on so many ranks, and what its config has to be told for that.
struct WorldFit {
  int ranks = 0;
  std::vector<Override> overrides;
};

// Of a run that was asked for on `wanted` ranks, the largest form that `available` ones can
// hold: tensor, pipeline and the global batch as they are, fewer data ranks. Nothing where the
// config's rules allow none of at least `least` data ranks.
// Throws ConfigError where `wanted` itself is against the rules.
std::optional<WorldFit> fit_world(const LoadedConfig& loaded, int wanted, int available,
                                  std::int64_t least);

}  // namespace trireme
