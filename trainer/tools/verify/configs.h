#pragma once
#include <filesystem>
#include <span>
#include <string>

#include "trainer/config/loaded_config.h"
#include "trainer/config/override.h"

namespace trireme::verify {

// The two configs that are compared, their data degrees settled.
struct Configs {
  LoadedConfig subject, reference;
  int ranks = 1;  // of the larger layout
};

// `against`: words that turn the config into the reference's, in this order:
//   alone               one rank
//   float64             one rank on the host, in float64
//   section.key=value   as on a command line
// Empty: alone. Data degrees that the config leaves open are what `ranks` leave, in the reference
// one. 0 ranks: as few as there can be. Throws ConfigError, also where the two would train on
// other samples, or another model, or by other rules.
Configs read_configs(const std::filesystem::path& file, std::span<const Override> overrides,
                     const std::string& against, int ranks);

}  // namespace trireme::verify
