#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme report RUN_DIR [--output FILE]
Command make_report(CLI::App& program);

}  // namespace trireme
