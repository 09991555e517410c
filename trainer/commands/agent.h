#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme agent --run-dir DIR --supervisor HOST:PORT [--node NAME]; started by trireme launch, so
// --help does not list it.
Command make_agent(CLI::App& program);

}  // namespace trireme
