#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme audit RUN_DIR [--data]
Command make_audit(CLI::App& program);

}  // namespace trireme
