#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme checkpoint list|show|verify|diff|prune
Command make_checkpoint(CLI::App& program);

}  // namespace trireme
