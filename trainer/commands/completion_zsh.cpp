#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/commands/completion.h"

namespace trireme {
namespace {

// An entry of _describe: 'word:what it is'.
std::string described(const std::string& word, const std::string& help) {
  std::string escaped;
  for (const char c : word) escaped += c == ':' ? std::string("\\:") : std::string(1, c);
  return shell_quoted(escaped + ":" + help);
}

std::string words_case(const CommandOutline& command) {
  std::string text = fmt::format("    ({})\n", shell_quoted(command.path));
  const auto add = [&](const char* list, const std::string& word, const std::string& help) {
    text += fmt::format("      {}+=({})\n", list, described(word, help));
  };
  for (const CommandOutline& one : command.commands) add("commands", one.name(), one.help);
  for (const OptionOutline& one : command.positionals) {
    for (const std::string& choice : one.choices) add("commands", choice, one.help);
  }
  for (const OptionOutline& option : command.options) {
    for (const std::string& name : option.names) add("options", name, option.help);
  }
  return text + "      ;;\n";
}

std::string zsh_value_cases(const CommandOutline& program) {
  std::string cases;
  for (const CommandOutline* command : all_commands(program)) {
    for (const OptionOutline& option : command->options) {
      if (option.value.empty()) continue;
      for (const std::string& name : option.names) {
        cases +=
            fmt::format("    ({}) takes_value=1 values=({}) ;;\n",
                        shell_quoted(command->path + ":" + name), fmt::join(option.choices, " "));
      }
    }
  }
  return cases;
}

constexpr const char* kZshScript = R"SH(#compdef trireme
# zsh completion of trireme: source <(trireme completion zsh), after compinit
_trireme() {{
  local where=trireme word option takes_value= takes_config=
  local -a commands options keys values
  for word in "${{(@)words[2,CURRENT-1]}}"; do
    case "$where $word" in
      ({paths}) where="$where $word" ;;
    esac
  done
  case "$where" in
{words}  esac
  case "$where" in
    ({config_paths}) takes_config=1 ;;
  esac
  option=${{words[CURRENT-1]}}
  if [[ $PREFIX == --*=* ]]; then
    option=${{PREFIX%%=*}} takes_value=1
    compset -P '*='
  fi
  case "$where:$option" in
{values}  esac
  if [[ -n $takes_config ]]; then
    case "$option" in
{key_values}    esac
  fi
  if (( $#values )); then
    compadd -a values
  elif [[ -n $takes_value ]]; then
    _files
  elif [[ $PREFIX == -* ]]; then
    _describe -o option options
    if [[ -n $takes_config ]]; then
      keys=(
{keys}      )
      _describe -o 'config key' keys -S ''
    fi
  elif (( $#commands )); then
    _describe command commands
  else
    _files
  fi
}}
if [[ $funcstack[1] == _trireme ]]; then
  _trireme "$@"
else
  compdef _trireme trireme
fi
)SH";

}  // namespace

std::string zsh_completion(const CommandOutline& program) {
  std::string words;
  for (const CommandOutline* command : all_commands(program)) words += words_case(*command);
  std::string keys;
  std::string key_values;
  for (const CompletedKey& key : completed_keys()) {
    keys += fmt::format("        {}\n", described(key.name + "=", key.help));
    if (key.values.empty()) continue;
    key_values += fmt::format("      ({}) values=({}) ;;\n", key.name, fmt::join(key.values, " "));
  }
  using Outline = CommandOutline;
  return fmt::format(
      kZshScript,
      fmt::arg("paths", quoted_paths(program, "|", [](const Outline&) { return true; })),
      fmt::arg("words", words), fmt::arg("keys", keys),
      fmt::arg("config_paths",
               quoted_paths(program, "|", [](const Outline& one) { return one.takes_config; })),
      fmt::arg("values", zsh_value_cases(program)), fmt::arg("key_values", key_values));
}

}  // namespace trireme
