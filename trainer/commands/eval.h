#pragma once
#include "trainer/commands/command.h"

namespace trireme {

Command make_eval(CLI::App& program);

}  // namespace trireme
