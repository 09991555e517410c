#include "trainer/commands/outline.h"

#include <algorithm>
#include <sstream>

namespace trireme {
namespace {

// CLI11 writes the type, then what each check says of itself: "TEXT:{auto,cpu,cuda}".
void set_type(OptionOutline& outline, const std::string& type) {
  const std::size_t colon = type.find(':');
  outline.value = type.substr(0, colon);
  if (colon == std::string::npos) return;
  const std::string checked = type.substr(colon + 1);
  if (!checked.starts_with('{') || !checked.ends_with('}')) {
    outline.limits = checked;
    return;
  }
  std::istringstream words(checked.substr(1, checked.size() - 2));
  for (std::string word; std::getline(words, word, ',');) outline.choices.push_back(word);
}

OptionOutline outline_of(const CLI::Option& option) {
  OptionOutline outline;
  if (option.nonpositional()) {
    for (const std::string& name : option.get_lnames()) outline.names.push_back("--" + name);
    for (const std::string& name : option.get_snames()) outline.names.push_back("-" + name);
  }
  if (option.get_type_size_max() != 0) set_type(outline, option.get_type_name());
  if (!option.nonpositional() && (outline.value == "TEXT" || outline.value.empty())) {
    outline.value = option.get_single_name();
  }
  outline.help = option.get_description();
  outline.default_value = option.get_default_str();
  outline.required = option.get_required();
  return outline;
}

CommandOutline outline_of(const CLI::App& app, const std::string& path) {
  CommandOutline outline{.path = path,
                         .help = app.get_description(),
                         .footer = app.get_footer(),
                         .positionals = {},
                         .options = {},
                         .commands = {}};
  for (const CLI::Option* option : app.get_options()) {
    auto& list = option->nonpositional() ? outline.options : outline.positionals;
    list.push_back(outline_of(*option));
    if (option->get_single_name() == "CONFIG") outline.takes_config = true;
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;
    outline.commands.push_back(outline_of(*command, path + " " + command->get_name()));
  }
  return outline;
}

void collect(const CommandOutline& command, std::vector<const CommandOutline*>& all) {
  all.push_back(&command);
  for (const CommandOutline& one : command.commands) collect(one, all);
}

}  // namespace

CommandOutline outline(const CLI::App& program) {
  return outline_of(program, program.get_name());
}

std::vector<const CommandOutline*> all_commands(const CommandOutline& program) {
  std::vector<const CommandOutline*> all;
  collect(program, all);
  return all;
}

}  // namespace trireme
