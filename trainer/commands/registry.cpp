#include "trainer/commands/checkpoint.h"
#include "trainer/commands/command.h"
#include "trainer/commands/config.h"
#include "trainer/commands/data.h"
#include "trainer/commands/doctor.h"
#include "trainer/commands/eval.h"
#include "trainer/commands/generate.h"
#include "trainer/commands/report.h"
#include "trainer/commands/tokenize.h"
#include "trainer/commands/train.h"

namespace trireme {

std::vector<Command> make_commands(CLI::App& program, const std::vector<Override>& overrides) {
  return {
      make_train(program, overrides),  make_eval(program),   make_generate(program),
      make_tokenize(program),          make_data(program),   make_checkpoint(program),
      make_config(program, overrides), make_report(program), make_doctor(program, overrides),
  };
}

}  // namespace trireme
