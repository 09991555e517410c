#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme report RUN_DIR... [--output FILE] [--text]
Command make_report(CLI::App& program);

}  // namespace trireme
