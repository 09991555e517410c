#pragma once
#include <string>
#include <vector>

#include "model/base/error.h"
#include "trainer/config/reader.h"

namespace trireme {

// A complete config, short enough to add a fault to. Line 1 is [model].
inline const std::string kGood =
    "[model]\n"
    "flavor = \"tiny\"\n"
    "[data]\n"
    "train = [{ path = \"text\" }]\n"
    "[training]\n"
    "steps = 100\n";

inline LoadedConfig read(const std::string& toml, const std::vector<Override>& overrides = {}) {
  return read_config({"run.toml", toml, "/home/me"}, overrides);
}

// What the reader says about it; empty when it is content.
inline std::string complaint(const std::string& toml, const std::vector<Override>& overrides = {}) {
  try {
    read(toml, overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return {};
}

}  // namespace trireme
