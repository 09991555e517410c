#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/commands/completion.h"

namespace trireme {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string at(const CommandOutline& command) {
  return fmt::format("complete -c trireme -n '__trireme_at \"{}\"'", command.path);
}

std::string option_line(const CommandOutline& command, const OptionOutline& option) {
  std::string line = at(command);
  for (const std::string& name : option.names) {
    const bool is_long = name.starts_with("--");
    line += fmt::format(" -{} {}", is_long ? 'l' : 's', name.substr(is_long ? 2 : 1));
  }
  if (!option.choices.empty()) {
    line += fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
  } else if (!option.value.empty()) {
    line += " -r";
  }
  return fmt::format("{} -d {}\n", line, quoted(option.help));
}

std::string command_lines(const CommandOutline& command) {
  std::string lines;
  for (const CommandOutline& one : command.commands) {
    lines += fmt::format("{} -f -a {} -d {}\n", at(command), one.name(), quoted(one.help));
  }
  for (const OptionOutline& one : command.positionals) {
    if (one.choices.empty()) continue;
    lines += fmt::format("{} -f -a '{}' -d {}\n", at(command), fmt::join(one.choices, " "),
                         quoted(one.help));
  }
  for (const OptionOutline& option : command.options) lines += option_line(command, option);
  return lines;
}

constexpr const char* kFishScript =
    R"SH(# fish completion of trireme: trireme completion fish | source
function __trireme_where
    set -l where trireme
    for word in (commandline -opc)[2..-1]
        switch "$where $word"
            case {paths}
                set where "$where $word"
        end
    end
    echo $where
end
function __trireme_at
    test (__trireme_where) = "$argv[1]"
end
function __trireme_takes_config
    contains -- (__trireme_where) {config_paths}
end
{commands}{keys})SH";

}  // namespace

std::string fish_completion(const CommandOutline& program) {
  std::string commands;
  for (const CommandOutline* command : all_commands(program)) commands += command_lines(*command);
  std::string keys;
  for (const CompletedKey& key : completed_keys()) {
    std::string values = "-r";
    if (!key.values.empty()) {
      values = fmt::format("{} -a '{}'", key.or_path ? "-r" : "-x", fmt::join(key.values, " "));
    }
    keys += fmt::format("complete -c trireme -n __trireme_takes_config -l {} {} -d {}\n",
                        key.name.substr(2), values, quoted(key.help));
  }
  using Outline = CommandOutline;
  return fmt::format(
      kFishScript,
      fmt::arg("paths", quoted_paths(program, " ", [](const Outline&) { return true; })),
      fmt::arg("config_paths",
               quoted_paths(program, " ", [](const Outline& one) { return one.takes_config; })),
      fmt::arg("commands", commands), fmt::arg("keys", keys));
}

}  // namespace trireme
