#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "trainer/config/run_config.h"

namespace trireme {

// Origin of a value.
struct Origin {
  enum class Kind : std::uint8_t {
    kDefault,
    kFamily,   // default of the model_type
    kFlavor,   // preset
    kDerived,  // computed from other values
    kFile,
    kCommandLine,
  };
  Kind kind = Kind::kDefault;
  std::uint32_t line = 0;  // in the file, from 1
  std::uint32_t column = 0;

  bool is_given() const { return kind == Kind::kFile || kind == Kind::kCommandLine; }
};

// A config with the origin of each of its values.
struct LoadedConfig {
  RunConfig config;
  std::string source;                     // file name, for messages
  std::map<std::string, Origin> origins;  // by key; missing: default

  Origin origin(const std::string& key) const {
    const auto found = origins.find(key);
    return found == origins.end() ? Origin{} : found->second;
  }
};

}  // namespace trireme
