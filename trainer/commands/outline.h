#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace trireme {

// The command line as data: what --help prints, for the man page and the shells' completion.

struct OptionOutline {
  std::vector<std::string> names;  // "--threads", "-n"; a positional has none
  std::string value;               // "FILE", "INT"; a switch has none
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
  bool takes_config = false;  // reads a CONFIG, and so takes --section.key=value

  std::string name() const { return path.substr(path.rfind(' ') + 1); }
};

// Of the program with all its commands; those that --help hides are left out.
CommandOutline outline(const CLI::App& program);

// It and all below it, each before its own.
std::vector<const CommandOutline*> all_commands(const CommandOutline& program);

}  // namespace trireme
