#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme plan CONFIG [-n RANKS] [--gpu NAME] [--search] [--json] [--html FILE] ...
Command make_plan(CLI::App& program, const std::vector<Override>& overrides);

}  // namespace trireme
