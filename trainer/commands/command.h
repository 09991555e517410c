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
// To add a command: write trainer/commands/<name>.cpp with its make_<name>, declare that below, and
// add its line to registry.cpp. Commands without a config have no `overrides`.
struct Command {
  CLI::App* app;
  std::function<ExitCode()> run;
  bool takes_overrides = false;  // false: --section.key=value is refused
};

// Every command, in the order --help lists them.
std::vector<Command> make_commands(CLI::App& program, const std::vector<Override>& overrides);

Command make_train(CLI::App& program, const std::vector<Override>& overrides);
Command make_launch(CLI::App& program, const std::vector<Override>& overrides);
Command make_verify(CLI::App& program, const std::vector<Override>& overrides);
// trireme plan CONFIG [-n RANKS] [--gpu NAME] [--search | --compare FILE] [--explain] [--json] ...
Command make_plan(CLI::App& program, const std::vector<Override>& overrides);
Command make_eval(CLI::App& program);
Command make_generate(CLI::App& program);
// trireme tokenize: text files -> a dataset of tokens, or a vocabulary.
Command make_tokenize(CLI::App& program);
// trireme data info|show|check: inspects a token dataset, or the samples of a training step.
Command make_data(CLI::App& program, const std::vector<Override>& overrides);
// trireme checkpoint list|show|verify|diff|prune|export|import
Command make_checkpoint(CLI::App& program);
// trireme config show CONFIG | keys | diff A B [--json] | from-hf DIR
Command make_config(CLI::App& program, const std::vector<Override>& overrides);
// trireme import-config FILE [--output FILE]
Command make_import_config(CLI::App& program);
// trireme report RUN_DIR... [--output FILE] [--text]
Command make_report(CLI::App& program);
// trireme audit RUN_DIR [--data]
Command make_audit(CLI::App& program);
// trireme doctor [CONFIG.toml]
Command make_doctor(CLI::App& program, const std::vector<Override>& overrides);
// trireme slurm CONFIG [--nodes N] [--time T] [--chain requeue|array|singleton] [--launch] ...
Command make_slurm(CLI::App& program, const std::vector<Override>& overrides);
// trireme completion bash|zsh|fish: prints a script for all commands of `program`, which must
// outlive the command
Command make_completion(CLI::App& program);
// trireme man: prints the man page of all commands of `program`, which must outlive the command
Command make_man(CLI::App& program);
// trireme agent --run-dir DIR --supervisor HOST:PORT [--node NAME]; started by trireme launch, so
// --help does not list it.
Command make_agent(CLI::App& program);

}  // namespace trireme
