#include <fmt/format.h>
#include <fmt/ranges.h>

#include "trainer/commands/completion.h"

namespace trireme {
namespace {

// What may stand after a command: words, and the choices of what it takes.
std::string words_of(const CommandOutline& command) {
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : " ") + word; };
  for (const CommandOutline& one : command.commands) add(one.name());
  for (const OptionOutline& one : command.positionals) {
    for (const std::string& choice : one.choices) add(choice);
  }
  for (const OptionOutline& option : command.options) {
    for (const std::string& name : option.names) add(name);
  }
  return words;
}

// The cases of options that take a value: its choices, or else a file's name.
std::string bash_value_cases(const CommandOutline& program) {
  std::string cases;
  for (const CommandOutline* command : all_commands(program)) {
    for (const OptionOutline& option : command->options) {
      if (option.value.empty()) continue;
      std::string patterns;
      for (const std::string& name : option.names) {
        patterns += (patterns.empty() ? "" : " | ") + shell_quoted(command->path + ":" + name);
      }
      cases += fmt::format("    {}) takes_value=1 values={} ;;\n", patterns,
                           shell_quoted(fmt::format("{}", fmt::join(option.choices, " "))));
    }
  }
  return cases;
}

constexpr const char* kBashScript =
    R"SH(# bash completion of trireme: source <(trireme completion bash)
_trireme() {{
  local line=${{COMP_LINE:0:COMP_POINT}} path=trireme words= keys= values= takes_value= prefix= one
  local word=${{line##*[[:space:]]}}
  for one in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path $one" in
      {paths}) path="$path $one" ;;
    esac
  done
  case "$path" in
{words}  esac
  case "$path" in
    {config_paths}) keys='{keys}' ;;
  esac
  local before=${{line%"$word"}}
  before=${{before%"${{before##*[![:space:]]}}"}}
  local option=${{before##*[[:space:]]}}
  if [[ $word == --*=* ]]; then
    option=${{word%%=*}} word=${{word#*=}} takes_value=1
    [[ $COMP_WORDBREAKS == *=* ]] || prefix=$option=
  fi
  case "$path:$option" in
{values}  esac
  if [[ $keys && $option == --*.* ]]; then
    case "$option" in
{key_values}    esac
  fi
  if [[ $takes_value || $values ]]; then
    COMPREPLY=($(compgen -P "$prefix" -W "$values" -- "$word"))
    return
  fi
  COMPREPLY=($(compgen -W "$words $keys" -- "$word"))
  [[ ${{#COMPREPLY[@]}} -eq 1 && ${{COMPREPLY[0]}} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}}
complete -o default -F _trireme trireme
)SH";

}  // namespace

std::string bash_completion(const CommandOutline& program) {
  std::string words;
  for (const CommandOutline* command : all_commands(program)) {
    words += fmt::format("    {}) words={} ;;\n", shell_quoted(command->path),
                         shell_quoted(words_of(*command)));
  }
  std::string keys;
  std::string key_values;
  for (const CompletedKey& key : completed_keys()) {
    keys += fmt::format("{}{}=", keys.empty() ? "" : " ", key.name);
    if (key.values.empty()) continue;
    key_values += fmt::format("      {}) values='{}' ;;\n", key.name, fmt::join(key.values, " "));
  }
  using Outline = CommandOutline;
  return fmt::format(
      kBashScript,
      fmt::arg("paths", quoted_paths(program, " | ", [](const Outline&) { return true; })),
      fmt::arg("words", words), fmt::arg("keys", keys),
      fmt::arg("config_paths",
               quoted_paths(program, " | ", [](const Outline& one) { return one.takes_config; })),
      fmt::arg("values", bash_value_cases(program)), fmt::arg("key_values", key_values));
}

}  // namespace trireme
