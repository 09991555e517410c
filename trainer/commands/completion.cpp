#include "trainer/commands/command.h"

#include <memory>
#include <string>

#include "trainer/commands/completion_script.h"
#include "trainer/commands/output.h"

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

}  // namespace trireme
