#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme slurm CONFIG [--nodes N] [--time T] [--chain requeue|array|singleton] [--launch] ...
Command make_slurm(CLI::App& program, const std::vector<Override>& overrides);

}  // namespace trireme
