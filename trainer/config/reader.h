#pragma once
#include <filesystem>
#include <span>
#include <string>

#include "trainer/config/loaded_config.h"
#include "trainer/config/override.h"
#include "trainer/config/rules.h"

namespace trireme {

// Text of a config.
struct ConfigText {
  std::string name;              // for messages
  std::string toml;              // contents
  std::filesystem::path folder;  // absolute; relative paths are resolved against it
};

// Reads and checks a config; overrides replace values of the file. Throws one ConfigError that
// lists all unknown, mistyped, missing, out-of-range and conflicting values, each with its position
// and the nearest known key.
LoadedConfig read_config(const ConfigText& text, std::span<const Override> overrides,
                         Purpose purpose = Purpose::kTraining);

// The same for a file. Paths in the file and in overrides are relative to its folder.
LoadedConfig load_config(const std::filesystem::path& file, std::span<const Override> overrides,
                         Purpose purpose = Purpose::kTraining);

// data.stages as TOML, as a run records it; nothing if it cannot be read.
std::optional<std::vector<DataStage>> parse_stages(const std::string& text);

}  // namespace trireme
