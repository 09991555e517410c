#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme data info|show|check: looks into a dataset of tokens, or at what a config gives to a
// step.
Command make_data(CLI::App& program, const std::vector<Override>& overrides);

}  // namespace trireme
