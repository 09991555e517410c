#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme doctor [CONFIG.toml]
Command make_doctor(CLI::App& program, const std::vector<Override>& overrides);

}  // namespace trireme
