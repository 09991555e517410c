#pragma once
#include <string>
#include <vector>

#include "trainer/commands/outline.h"

namespace trireme {

// Shell scripts that complete commands, options, choices and, for commands with a config, config
// keys with their allowed values.
std::string bash_completion(const CommandOutline& program);
std::string zsh_completion(const CommandOutline& program);
std::string fish_completion(const CommandOutline& program);

// A config key as an option, with its allowed values if they can be listed.
struct CompletedKey {
  std::string name;  // "--optimizer.name"
  std::string help;
  std::vector<std::string> values;
  bool or_path = false;  // a path is also allowed
};
std::vector<CompletedKey> completed_keys();

// Quotes text for POSIX shells and zsh.
std::string shell_quoted(const std::string& text);
// Quoted paths of the commands that satisfy `is_so`, joined by `between`: 'trireme' 'trireme train'
// ...
std::string quoted_paths(const CommandOutline& program, const char* between,
                         bool (*is_so)(const CommandOutline&));

}  // namespace trireme
