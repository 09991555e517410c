#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme checkpoint list|show|verify|diff|prune|export|import
Command make_checkpoint(CLI::App& program);

}  // namespace trireme
