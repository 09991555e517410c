#pragma once
#include <filesystem>
#include <span>
#include <string>

#include "trainer/config/loaded_config.h"
#include "trainer/config/override.h"
#include "trainer/config/rules.h"

namespace trireme {

// A config before it is read.
struct ConfigText {
  std::string name;              // for messages
  std::string toml;              // the text itself
  std::filesystem::path folder;  // absolute; completes relative paths
};

// Reads and checks a config. The overrides replace values of the file. Throws one
// ConfigError that lists everything that is wrong: unknown, mistyped, missing, out of
// range and contradictory values, each with its place and the nearest known key.
LoadedConfig read_config(const ConfigText& text, std::span<const Override> overrides,
                         Purpose purpose = Purpose::kTraining);

// The same for a file; paths in it, and in the overrides, are relative to its folder.
LoadedConfig load_config(const std::filesystem::path& file, std::span<const Override> overrides,
                         Purpose purpose = Purpose::kTraining);

}  // namespace trireme
