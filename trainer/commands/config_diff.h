#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace trireme {

// trireme config diff A B [--json]
struct ConfigDiff {
  std::string before, after;  // config files or run folders
  bool json = false;
};

// Adds the command to `config` and binds its options.
CLI::App* add_config_diff(CLI::App& config, ConfigDiff& to);

// The keys whose effective values differ, with the effect of each difference on a run that resumes:
// text, or JSON. Throws ConfigError if one of the configs cannot be read.
std::string config_diff(const ConfigDiff& of);

}  // namespace trireme
