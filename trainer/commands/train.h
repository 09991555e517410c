#pragma once
#include "trainer/commands/command.h"

namespace trireme {

Command make_train(CLI::App& program, const std::vector<Override>& overrides);

}  // namespace trireme
