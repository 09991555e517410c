#pragma once
#include "trainer/commands/command.h"

namespace trireme {

Command make_launch(CLI::App& program, const std::vector<Override>& overrides);

}  // namespace trireme
