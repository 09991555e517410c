#pragma once
#include <filesystem>
#include <span>
#include <string>

#include "trainer/config/loaded_config.h"
#include "trainer/config/override.h"

namespace trireme::verify {

// The two configs to compare, with all data-parallel degrees set.
struct Configs {
  LoadedConfig subject, reference;
  int ranks = 1;  // of the larger layout
};

// `against` derives the reference config; words separated by spaces:
//   alone               one rank
//   float64             one rank on the CPU, in float64
//   section.key=value   an override, as on the command line
// Empty: alone. Open data-parallel degrees are set from `ranks`, or to 1 in the reference. 0 ranks:
// the minimum. Throws ConfigError for an invalid config, and if the two configs differ in the
// model, the samples or the optimizer.
Configs read_configs(const std::filesystem::path& file, std::span<const Override> overrides,
                     const std::string& against, int ranks);

}  // namespace trireme::verify
