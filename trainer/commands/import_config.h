#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme import-config FILE [--output FILE]
Command make_import_config(CLI::App& program);

}  // namespace trireme
