#pragma once
#include <span>
#include <string>
#include <vector>

namespace trireme {

// A config value given on the command line, `--section.key=value`.
struct Override {
  std::string key;    // "training.steps"
  std::string value;  // as typed: TOML, or a bare word for text keys
};

// A command line separated into arguments and overrides. Overrides have a dot in their name.
struct CommandLine {
  std::vector<std::string> arguments;
  std::vector<Override> overrides;
};

// Accepts `--a.b=value`, `--a.b value`, and for switches `--a.b` and `--a.no_b`.
// Arguments after `--` are never overrides.
CommandLine split_overrides(std::span<const std::string> arguments);

}  // namespace trireme
