#pragma once
#include <CLI/CLI.hpp>
#include <functional>
#include <vector>

#include "model/base/error.h"
#include "trainer/config/override.h"

namespace trireme {

// A command of the command line. A make_* function adds it to the program, binds its options and
// returns the function to run; failures are thrown as an Error. The overrides are complete when
// `run` is called and outlive it.
//
// To add a command: write trainer/commands/<name>.{h,cpp} with
//   Command make_<name>(CLI::App& program, const std::vector<Override>& overrides);
// and add its line to registry.cpp. Commands without a config have no `overrides`.
struct Command {
  CLI::App* app;
  std::function<ExitCode()> run;
  bool takes_overrides = false;  // false: --section.key=value is refused
};

// Every command, in the order --help lists them.
std::vector<Command> make_commands(CLI::App& program, const std::vector<Override>& overrides);

}  // namespace trireme
