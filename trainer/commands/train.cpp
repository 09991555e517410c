#include "trainer/commands/train.h"

#include <memory>

#include "trainer/config/reader.h"
#include "trainer/loop/train.h"

namespace trireme {

Command make_train(CLI::App& program, const std::vector<Override>& overrides) {
  CLI::App* app = program.add_subcommand("train", "Train a model; resumes by itself");
  auto file = std::make_shared<std::string>();
  app->add_option("CONFIG", *file, "The run's config file")->required();
  app->footer(
      "Continues from the newest good checkpoint of job.dump_folder (see checkpoint.resume).\n"
      "SIGTERM, SIGUSR1 and Ctrl-C finish the step, commit a checkpoint and stop;\n"
      "a second Ctrl-C ends at once.\n"
      "To try training.on_nonfinite and on_spike out, one gradient can be damaged once:\n"
      "TRIREME_INJECT_GRADIENT=\"step=5 rank=0 parameter=layers.0.mlp.up.weight value=nan\"\n"
      "and to try elastic.replica_check_interval out, one bit of a weight:\n"
      "TRIREME_INJECT_WEIGHT=\"step=5 rank=1 parameter=layers.0.mlp.up.weight bit=20\"\n"
      "To try restarts out, ranks can be made to fail where they enter a phase, from a step on,\n"
      "by kill, abort, stop, exit, throw or hang; several with ';' between them. once=FILE, which\n"
      "is made then, spares the next start:\n"
      "TRIREME_INJECT_FAULT=\"rank=2 step=5 phase=backward action=kill once=/tmp/struck\"\n"
      "Example: trireme train configs/tiny.toml --training.steps=100");
  return {app, [file, &overrides] { return train(load_config(*file, overrides)); }, true};
}

}  // namespace trireme
