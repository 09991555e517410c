#pragma once
#include <toml++/toml.h>

#include <string>
#include <vector>

#include "trainer/config/option.h"

namespace trireme {

// An error in a value or in a part of it.
struct ValueFinding {
  std::string part;   // "[1].weight"; empty: the value as a whole
  std::string value;  // as given, for messages
  std::string what;
  toml::source_position at;
};

// Sets the option's member from a TOML value. Errors are added to `findings`, and the member keeps
// its value. Relative paths are resolved against `folder`.
void assign(const Option& option, const toml::node& node, const std::filesystem::path& folder,
            RunConfig& config, std::vector<ValueFinding>& findings);

// The value as TOML on one line.
std::string shown(const toml::node& node);

}  // namespace trireme
