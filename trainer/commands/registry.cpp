#include "trainer/commands/command.h"

namespace trireme {

std::vector<Command> make_commands(CLI::App& program, const std::vector<Override>& overrides) {
  return {
      make_train(program, overrides),
      make_launch(program, overrides),
      make_verify(program, overrides),
      make_plan(program, overrides),
      make_eval(program),
      make_generate(program),
      make_tokenize(program),
      make_data(program, overrides),
      make_checkpoint(program),
      make_config(program, overrides),
      make_import_config(program),
      make_report(program),
      make_audit(program),
      make_doctor(program, overrides),
      make_slurm(program, overrides),
      make_completion(program),
      make_man(program),
      make_agent(program),
  };
}

}  // namespace trireme
