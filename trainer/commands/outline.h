#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace trireme {

// Contents of --help as data, for the man page and shell completion.

struct OptionOutline {
  std::vector<std::string> names;  // "--threads", "-n"; empty for positionals
  std::string value;               // "FILE", "INT"; empty for switches
  std::string limits;              // "INT in [0 - 4096]"; may be empty
  std::vector<std::string> choices;
  std::string help;
  std::string default_value;
  bool required = false;
};

struct CommandOutline {
  std::string path;  // "trireme config show"
  std::string help;
  std::string footer;
  std::vector<OptionOutline> positionals;
  std::vector<OptionOutline> options;
  std::vector<CommandOutline> commands;
  bool takes_config = false;  // has a CONFIG argument and accepts --section.key=value

  std::string name() const { return path.substr(path.rfind(' ') + 1); }
};

// Outline of the program and all commands, without hidden ones.
CommandOutline outline(const CLI::App& program);

// The program and all commands in pre-order.
std::vector<const CommandOutline*> all_commands(const CommandOutline& program);

}  // namespace trireme
