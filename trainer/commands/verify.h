#pragma once
#include "trainer/commands/command.h"

namespace trireme {

Command make_verify(CLI::App& program, const std::vector<Override>& overrides);

}  // namespace trireme
