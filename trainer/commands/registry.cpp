#include "trainer/commands/agent.h"
#include "trainer/commands/audit.h"
#include "trainer/commands/checkpoint.h"
#include "trainer/commands/command.h"
#include "trainer/commands/completion.h"
#include "trainer/commands/config.h"
#include "trainer/commands/data.h"
#include "trainer/commands/doctor.h"
#include "trainer/commands/eval.h"
#include "trainer/commands/generate.h"
#include "trainer/commands/import_config.h"
#include "trainer/commands/launch.h"
#include "trainer/commands/man.h"
#include "trainer/commands/plan.h"
#include "trainer/commands/report.h"
#include "trainer/commands/slurm.h"
#include "trainer/commands/tokenize.h"
#include "trainer/commands/train.h"
#include "trainer/commands/verify.h"

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
