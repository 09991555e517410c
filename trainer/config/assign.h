#pragma once
#include <toml++/toml.h>

#include <string>
#include <vector>

#include "trainer/config/option.h"

namespace trireme {

// What is wrong with a value, or with a part of it.
struct ValueFinding {
  std::string part;   // "[1].weight"; empty: the value as a whole
  std::string value;  // as given, for people
  std::string what;
  toml::source_position at;
};

// Sets the option's member from a TOML value. Whatever is wrong is added to `findings`,
// and then the member keeps its value. Relative paths are completed by `folder`.
void assign(const Option& option, const toml::node& node, const std::filesystem::path& folder,
            RunConfig& config, std::vector<ValueFinding>& findings);

// The value as somebody would type it, on one line.
std::string shown(const toml::node& node);

}  // namespace trireme
