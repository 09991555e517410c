#pragma once
#include <string>
#include <vector>

#include "trainer/commands/outline.h"

namespace trireme {

// What a shell sources to complete our command line: commands, their options and choices, and,
// where a command takes them, the keys of the config with their allowed values.
std::string bash_completion(const CommandOutline& program);
std::string zsh_completion(const CommandOutline& program);
std::string fish_completion(const CommandOutline& program);

// For those scripts.

// A key of the config as an option, and the values it has where those can be listed.
struct CompletedKey {
  std::string name;  // "--optimizer.name"
  std::string help;
  std::vector<std::string> values;
  bool or_path = false;  // a path is good, too
};
std::vector<CompletedKey> completed_keys();

// 'text', as POSIX shells and zsh read it.
std::string shell_quoted(const std::string& text);
// 'trireme' 'trireme train' ... joined by `between`: the paths of those commands that are so.
std::string quoted_paths(const CommandOutline& program, const char* between,
                         bool (*is_so)(const CommandOutline&));

}  // namespace trireme
