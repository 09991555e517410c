#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme man: the man page of all commands of `program`, which outlives it
Command make_man(CLI::App& program);

}  // namespace trireme
