#include "trainer/commands/completion_script.h"

#include "trainer/config/option.h"

namespace trireme {

std::vector<CompletedKey> completed_keys() {
  std::vector<CompletedKey> keys;
  for (const Option& option : options()) {
    CompletedKey key{.name = "--" + option.key,
                     .help = option.help,
                     .values = option.allowed,
                     .or_path = option.or_path};
    if (option.is_switch()) key.values = {"true", "false"};
    keys.push_back(std::move(key));
  }
  return keys;
}

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string quoted_paths(const CommandOutline& program, const char* between,
                         bool (*is_so)(const CommandOutline&)) {
  std::string paths;
  for (const CommandOutline* command : all_commands(program)) {
    if (!is_so(*command)) continue;
    paths += (paths.empty() ? "" : between) + shell_quoted(command->path);
  }
  return paths;
}

}  // namespace trireme
