#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme completion bash|zsh|fish: prints a script for all commands of `program`, which must
// outlive the command
Command make_completion(CLI::App& program);

}  // namespace trireme
