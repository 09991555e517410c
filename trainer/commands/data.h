#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme data info|show|check: inspects a token dataset, or the samples of a training step.
Command make_data(CLI::App& program, const std::vector<Override>& overrides);

}  // namespace trireme
