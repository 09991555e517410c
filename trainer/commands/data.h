#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme data info|show|check: looks into a dataset of tokens.
Command make_data(CLI::App& program);

}  // namespace trireme
