#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme completion bash|zsh|fish: of all commands of `program`, which outlives it
Command make_completion(CLI::App& program);

}  // namespace trireme
