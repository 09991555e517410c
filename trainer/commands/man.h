#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme man: prints the man page of all commands of `program`, which must outlive the command
Command make_man(CLI::App& program);

}  // namespace trireme
