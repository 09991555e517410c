#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme config show CONFIG | keys
Command make_config(CLI::App& program, const std::vector<Override>& overrides);

}  // namespace trireme
