#include "trainer/commands/completion.h"

#include <memory>
#include <string>

#include "trainer/commands/command.h"
#include "trainer/commands/output.h"
#include "trainer/config/option.h"

namespace trireme {

Command make_completion(CLI::App& program) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* app = program.add_subcommand("completion", "Print a shell completion script");
  app->add_option("SHELL", *shell, "Shell that the script is for")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app->footer(
      "bash, zsh:  source <(trireme completion bash)    (zsh: after compinit)\n"
      "fish:       trireme completion fish | source\n"
      "'cmake --install' installs all three.");
  return {app, [&program, shell] {
            const CommandOutline all = outline(program);
            print_out(*shell == "bash"  ? bash_completion(all)
                      : *shell == "zsh" ? zsh_completion(all)
                                        : fish_completion(all));
            return ExitCode::kDone;
          }};
}

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
