#pragma once
#include <toml++/toml.h>

#include <string>
#include <vector>

#include "trainer/config/option.h"
#include "trainer/config/value_reader.h"

namespace trireme {

// Sets the option's member from a TOML value. Errors are added to `findings`, and the member keeps
// its value. Relative paths are resolved against `folder`.
void assign(const Option& option, const toml::node& node, const std::filesystem::path& folder,
            RunConfig& config, std::vector<ValueFinding>& findings);

}  // namespace trireme
