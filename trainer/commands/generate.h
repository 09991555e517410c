#pragma once
#include "trainer/commands/command.h"

namespace trireme {

Command make_generate(CLI::App& program);

}  // namespace trireme
