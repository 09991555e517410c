#include "trainer/commands/completion.h"

#include <memory>
#include <string>

#include "trainer/commands/completion_script.h"
#include "trainer/commands/output.h"

namespace trireme {

Command make_completion(CLI::App& program) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* app = program.add_subcommand(
      "completion", "Print a script that lets a shell complete commands, options and config keys");
  app->add_option("SHELL", *shell, "whose script")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app->footer(
      "To use it now:  source <(trireme completion bash), the same for zsh after compinit, or\n"
      "trireme completion fish | source. 'cmake --install' puts all three where shells look.");
  return {app, [&program, shell] {
            const CommandOutline all = outline(program);
            print_out(*shell == "bash"  ? bash_completion(all)
                      : *shell == "zsh" ? zsh_completion(all)
                                        : fish_completion(all));
            return ExitCode::kDone;
          }};
}

}  // namespace trireme
